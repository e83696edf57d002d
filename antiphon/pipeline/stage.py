"""The kinds of stages: each drives one kind of model code and knows no model."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from antiphon.codec.fused_runner import FusedRunner
from antiphon.codec.protocol import StreamingDecoder
from antiphon.codec.runner import BatchedDecoder
from antiphon.codec.slots import DecoderStream
from antiphon.engine.admission import AdmissionLimits
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.generator_engine import GeneratorEngine
from antiphon.engine.runner import Runner
from antiphon.engine.scheduler import SchedulerLimits
from antiphon.fabric.base import Stage, StageItem, StageRequest, StageStream
from antiphon.models.base import Piece, Prompt, StageGenerator
from antiphon.models.spec import LoadContext, StageKind, StageSpec
from antiphon.telemetry.stage_status import Publish, StatusPublisher
from antiphon.types import AudioChunk, Ended, FrameReady

_FIRST_CHUNK_FRAMES = 1
_CHUNK_FRAMES = 4


class GeneratorStage:
    """Pulls generators piece by piece, by their listeners' clocks."""

    def __init__(
        self, generator: StageGenerator, name: str, context: LoadContext, publish: Publish
    ) -> None:
        self._engine = GeneratorEngine(
            generator,
            name=name,
            max_streams=context.max_slots,
            limits=context.admission,
            publish=publish,
        )

    def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        assert upstream is None
        return self._engine.generate(
            request.id,
            request.prompt,
            stream_id=request.stream_id,
            is_live=request.is_live,
            is_later=request.is_later,
            speed=request.speed,
        )

    def append(self, request_id: str, piece: Piece) -> None:
        raise AssertionError("a generator's text is complete when it begins")

    def abort(self, request_id: str) -> None:
        self._engine.abort(request_id)

    async def close(self) -> None:
        await self._engine.close()


class EngineStage:
    """Hands prompts to an engine, and streams what its runner makes: frames, or audio."""

    def __init__(self, runner: Runner, name: str, context: LoadContext, publish: Publish) -> None:
        limits = SchedulerLimits(admission=context.admission or AdmissionLimits())
        self._engine = AsyncEngine(runner, name=name, limits=limits, publish=publish)

    def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        assert upstream is None
        return self._engine.generate(request.id, request.prompt, is_live=request.is_live)

    def append(self, request_id: str, piece: Piece) -> None:
        self._engine.append(request_id, piece)

    def abort(self, request_id: str) -> None:
        self._engine.abort(request_id)

    async def close(self) -> None:
        await self._engine.close()


class DecoderStage:
    """Groups frames, a small group first, and decodes each once, many requests at a time."""

    def __init__(
        self,
        decoder: StreamingDecoder,
        name: str,
        context: LoadContext,
        publish: Publish,
    ) -> None:
        self._decoder = BatchedDecoder(decoder, context.max_slots, name=name)
        self._status = StatusPublisher(publish)

    async def open(
        self, request: StageRequest, upstream: StageStream | None
    ) -> AsyncGenerator[StageItem, None]:
        assert upstream is not None
        prompt = request.prompt
        num_wanted = prompt.first_chunk_frames or _FIRST_CHUNK_FRAMES
        frames: list[Any] = []
        async with self._opened(prompt) as stream, aclosing(upstream):
            async for item in upstream:
                if isinstance(item, FrameReady):
                    frames.append(item.frame)
                if len(frames) >= num_wanted or (frames and isinstance(item, Ended)):
                    samples = await self._decoder.decode(stream, frames)
                    yield AudioChunk(samples, self._decoder.sample_rate_hz, len(frames))
                    frames, num_wanted = [], _CHUNK_FRAMES
                if isinstance(item, Ended):
                    yield item

    @asynccontextmanager
    async def _opened(self, prompt: Prompt) -> AsyncGenerator[DecoderStream, None]:
        """Open a stream; it is primed with the prompt's context while the first frame is made."""
        stream = self._decoder.open()
        self._status.update(opened=1)
        try:
            if prompt.context_frames is not None:
                self._decoder.prime(stream, prompt.context_frames)
            yield stream
        finally:
            self._decoder.close(stream)
            self._status.update(opened=-1, failure=self._decoder.failure)

    def append(self, request_id: str, piece: Piece) -> None:
        raise AssertionError("a decoder is given no text")

    def abort(self, request_id: str) -> None:
        """Do nothing: a request ends here when it ends upstream."""

    async def close(self) -> None:
        await self._decoder.shut_down()


_FUSED = (StageKind.AUTOREGRESSIVE, StageKind.DECODER)


def engine_groups(
    pipeline: Sequence[StageSpec], *, is_colocated: bool
) -> tuple[tuple[StageSpec, ...], ...]:
    """Return the stages of a pipeline by engine: on one device, a decoder joins what feeds it."""
    groups: list[tuple[StageSpec, ...]] = []
    for spec in pipeline:
        joined = (*(groups[-1] if groups else ()), spec)
        if is_colocated and tuple(each.kind for each in joined) == _FUSED:
            groups[-1] = joined
        else:
            groups.append((spec,))
    return tuple(groups)


def build_stage(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> Stage:
    """Load the model code of stages of one device, and put the driver of their kind around it.

    Args:
        specs: of the stages, first to last.
        context: where and how they are loaded.
        publish: takes each change of the stage's status.
    """
    name = "+".join(spec.name for spec in specs)
    model, *rest = [spec.factory.resolve()(context) for spec in specs]
    match [spec.kind for spec in specs]:
        case [StageKind.GENERATOR]:
            return GeneratorStage(model, name, context, publish)
        case [StageKind.AUTOREGRESSIVE]:
            return EngineStage(model, name, context, publish)
        case [StageKind.DECODER]:
            return DecoderStage(model, name, context, publish)
        case [StageKind.AUTOREGRESSIVE, StageKind.DECODER]:
            return EngineStage(FusedRunner(model, rest[0]), name, context, publish)
        case kinds:
            raise AssertionError(f"stages {kinds} cannot share a device")
