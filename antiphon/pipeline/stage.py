"""The kinds of stages: each drives one kind of model code and knows no model."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from antiphon.codec.protocol import StreamingDecoder
from antiphon.codec.runner import BatchedDecoder
from antiphon.codec.slots import DecoderStream
from antiphon.engine.admission import AdmissionLimits
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.generator_engine import GeneratorEngine
from antiphon.engine.runner import Runner
from antiphon.engine.scheduler import SchedulerLimits
from antiphon.fabric.base import Stage, StageItem, StageRequest, StageStream
from antiphon.models.base import Piece, Prompt, SpeechGenerator
from antiphon.models.spec import LoadContext, PipelineSpec, StageKind, StageSpec
from antiphon.pipeline.fused_runner import FusedRunner
from antiphon.types import AudioChunk, Ended, FrameReady


class GeneratorStage:
    """Pulls generators piece by piece, by their listeners' clocks."""

    def __init__(
        self,
        generator: SpeechGenerator,
        name: str,
        max_streams: int,
        admission: AdmissionLimits | None = None,
    ) -> None:
        self._engine = GeneratorEngine(
            generator, name=name, max_streams=max_streams, limits=admission
        )

    async def open(
        self, request: StageRequest, upstream: StageStream | None
    ) -> AsyncGenerator[StageItem, None]:
        assert upstream is None
        chunks = self._engine.generate(
            request.stream_id or request.id,
            request.prompt,
            is_live=request.is_live,
            is_later=request.is_later,
            speed=request.speed,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
        yield Ended("stop")

    def append(self, request_id: str, piece: Piece) -> None:
        raise AssertionError("a generator's text is complete when it begins")

    @property
    def failure(self) -> str | None:
        return None  # a generator that raises fails its own request alone

    @property
    def stalled_s(self) -> float:
        return self._engine.stalled_s

    async def close(self) -> None:
        await self._engine.close()


class EngineStage:
    """Hands prompts to an engine, and streams what its runner makes: frames, or audio."""

    def __init__(self, runner: Runner, name: str, limits: SchedulerLimits | None = None) -> None:
        self._engine = AsyncEngine(runner, name=name, limits=limits)

    def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        assert upstream is None
        return self._engine.generate(request.id, request.prompt, is_live=request.is_live)

    def append(self, request_id: str, piece: Piece) -> None:
        self._engine.append(request_id, piece)

    @property
    def failure(self) -> str | None:
        return self._engine.failure

    @property
    def stalled_s(self) -> float:
        return self._engine.heartbeat.stalled_s

    async def close(self) -> None:
        await self._engine.close()


class DecoderStage:
    """Groups frames, a small group first, and decodes each once, many requests at a time."""

    def __init__(
        self,
        decoder: StreamingDecoder,
        num_slots: int,
        name: str,
        *,
        first_chunk_frames: int = 1,
        chunk_frames: int = 4,
    ) -> None:
        self._decoder = BatchedDecoder(decoder, num_slots, name=name)
        self._first_chunk_frames = first_chunk_frames
        self._chunk_frames = chunk_frames

    async def open(
        self, request: StageRequest, upstream: StageStream | None
    ) -> AsyncGenerator[StageItem, None]:
        assert upstream is not None
        prompt = request.prompt
        num_wanted = prompt.first_chunk_frames or self._first_chunk_frames
        frames: list[Any] = []
        async with self._opened(prompt) as stream, aclosing(upstream):
            async for item in upstream:
                if isinstance(item, FrameReady):
                    frames.append(item.frame)
                if len(frames) >= num_wanted or (frames and isinstance(item, Ended)):
                    samples = await self._decoder.decode(stream, frames)
                    yield AudioChunk(samples, self._decoder.sample_rate_hz, len(frames))
                    frames, num_wanted = [], self._chunk_frames
                if isinstance(item, Ended):
                    yield item

    @asynccontextmanager
    async def _opened(self, prompt: Prompt) -> AsyncGenerator[DecoderStream, None]:
        """Open a stream; it is primed with the prompt's context while the first frame is made."""
        stream = self._decoder.open()
        try:
            if prompt.context_frames is not None:
                self._decoder.prime(stream, prompt.context_frames)
            yield stream
        finally:
            self._decoder.close(stream)

    def append(self, request_id: str, piece: Piece) -> None:
        raise AssertionError("a decoder is given no text")

    @property
    def failure(self) -> str | None:
        return self._decoder.failure

    @property
    def stalled_s(self) -> float:
        return 0.0  # it has no steps of its own

    async def close(self) -> None:
        await self._decoder.shut_down()


def hosted_together(
    pipeline: PipelineSpec, *, is_colocated: bool
) -> tuple[tuple[StageSpec, ...], ...]:
    """Return the groups of stages that share a device and so an engine, first to last."""
    return (pipeline.stages,) if is_colocated else tuple((spec,) for spec in pipeline.stages)


def group_name(specs: Sequence[StageSpec]) -> str:
    """Return what a fabric knows a group of stages by."""
    return "+".join(spec.name for spec in specs)


def build_stage(
    specs: Sequence[StageSpec], context: LoadContext, limits: SchedulerLimits | None = None
) -> Stage:
    """Load the model code of stages of one device, and put the driver of their kind around it.

    Args:
        specs: of the stages, first to last.
        context: where and how they are loaded.
        limits: of an engine's work.
    """
    name = group_name(specs)
    model, *rest = [spec.factory.resolve()(context) for spec in specs]
    match [spec.kind for spec in specs]:
        case [StageKind.GENERATOR]:
            admission = limits.admission if limits else None
            return GeneratorStage(model, name, context.max_slots, admission)
        case [StageKind.AUTOREGRESSIVE]:
            return EngineStage(model, name, limits)
        case [StageKind.DECODER]:
            return DecoderStage(model, context.max_slots, name)
        case [StageKind.AUTOREGRESSIVE, StageKind.DECODER]:
            return EngineStage(FusedRunner(model, rest[0]), name, limits)
        case kinds:
            raise AssertionError(f"stages {kinds} cannot share a device")
