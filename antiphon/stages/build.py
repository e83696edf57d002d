"""The kinds of stages: each drives one kind of model code and knows no model."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from antiphon.codec.runners import CodecRunner, FusedRunner
from antiphon.concurrency import cancel_and_wait, run_with_producer
from antiphon.contracts.family import LoadContext, StageKind, StageSpec
from antiphon.contracts.prompt import Admitted, BatchEncoder, Piece
from antiphon.contracts.types import AudioChunk, Ended, FrameReady
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.encoder_engine import EncoderEngine
from antiphon.engine.runner import Runner
from antiphon.engine.scheduler import SchedulerLimits
from antiphon.stages.base import Stage, StageItem, StageRequest, StageStream
from antiphon.stages.diffusion_stage import DiffusionStage
from antiphon.stages.generator_stage import GeneratorStage
from antiphon.stages.upstream import PromptStage, reserved
from antiphon.telemetry.stage_status import Publish

_FUSED = (StageKind.AUTOREGRESSIVE, StageKind.DECODER)


class EncoderStage(PromptStage):
    """Encodes the data of prompts, each in a batch with what else waits; makes one `Latents`."""

    def __init__(
        self, encoder: BatchEncoder, spec: StageSpec, context: LoadContext, publish: Publish
    ) -> None:
        super().__init__()
        self._engine: EncoderEngine = EncoderEngine(
            encoder,
            name=spec.name,
            capacity=min(spec.max_concurrency or context.max_slots, context.max_slots),
            limits=context.admission,
            publish=publish,
        )

    def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        assert upstream is None, "an encoder is the first stage"
        return self._encode(request)

    async def _encode(self, request: StageRequest) -> AsyncGenerator[StageItem, None]:
        with self._opened(request.id) as aborted:
            is_aborted = asyncio.ensure_future(aborted.wait())
            encoding = asyncio.ensure_future(
                self._engine.encode(
                    request.prompt.data, is_live=request.is_live, is_later=request.is_later
                )
            )
            try:
                await asyncio.wait((is_aborted, encoding), return_when=asyncio.FIRST_COMPLETED)
                if is_aborted.done():
                    yield Ended("abort")
                    return
                yield encoding.result()
            finally:
                await cancel_and_wait(is_aborted, encoding)
                del encoding  # the traceback of its error refers to this frame
        yield Ended("stop")


class EngineStage:
    """Hands prompts to an engine, and streams what its runner makes: frames, or audio.

    If there is a stage before, its frames are the runner's pieces; see `CodecRunner`.
    """

    def __init__(self, runner: Runner, name: str, context: LoadContext, publish: Publish) -> None:
        limits = SchedulerLimits(admission=context.admission)
        self._max_unread_frames = limits.max_unread_frames
        self._engine = AsyncEngine(
            runner, name=name, limits=limits, policy=context.playback, publish=publish
        )

    def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        stream_id = request.stream_id or request.id
        if request.is_reservation:
            return reserved(self._engine.reserve(stream_id, is_live=request.is_live), upstream)
        if upstream is not None:
            return self._relay(request, upstream)
        if request.tells_admission:
            return self._admitted(request)
        self._engine.release(stream_id)
        return self._engine.generate(
            request.id,
            request.prompt,
            is_live=request.is_live,
            is_later=request.is_later,
            pieces=request.pieces,
            resume_frames=request.resume_frames,
            buffered_s=request.buffered_s,
            returns_frames=request.returns_frames,
        )

    async def _admitted(self, request: StageRequest) -> AsyncGenerator[StageItem, None]:
        """Reserve room for a request, report it, and stream the items."""
        stream_id = request.stream_id or request.id
        async with aclosing(self._engine.reserve(stream_id, is_live=request.is_live)) as place:
            if request.is_later:
                yield Admitted()
            else:
                yield await anext(place)
            admitted = replace(request, is_later=True, tells_admission=False)
            async with aclosing(self.open(admitted, None)) as items:
                async for item in items:
                    yield item

    async def _relay(
        self, request: StageRequest, upstream: StageStream
    ) -> AsyncGenerator[StageItem, None]:
        """Stream what is made of upstream's frames; the reason of the end is upstream's."""
        prompt = replace(
            request.prompt,
            data=None,
            num_frames_allowed=0,
            num_positions=0,
            position_keys=(),
            num_common_positions=0,
        )
        frames = _FrameFeed(self._engine, request, upstream, self._max_unread_frames)
        events = self.open(replace(request, prompt=prompt, pieces=(), tells_admission=False), None)
        async with aclosing(upstream):
            first = await anext(upstream)  # at once: text may be appended as soon as it is open
            if isinstance(first, Admitted):
                yield first
                first = await anext(upstream)
            produced = run_with_producer(events, partial(frames.send_all, first))
            async with aclosing(produced) as items:
                async for item in items:
                    if isinstance(item, AudioChunk):
                        frames.on_read(item.num_frames)
                        yield item
                    elif isinstance(item, Ended):
                        yield frames.ended or item if item.reason == "stop" else item

    def append(self, request_id: str, piece: Piece) -> None:
        self._engine.append(request_id, piece)

    def abort(self, request_id: str) -> None:
        self._engine.abort(request_id)

    async def close(self) -> None:
        await self._engine.close()


class _FrameFeed:
    """Hands frames of the stage before to the engine of a request, a bounded number ahead."""

    def __init__(
        self, engine: AsyncEngine, request: StageRequest, upstream: StageStream, max_ahead: int
    ) -> None:
        self.ended: Ended | None = None  # of the stage before, once it has ended
        self._engine = engine
        self._request = request
        self._upstream = upstream
        self._room = asyncio.Semaphore(max_ahead)

    async def send_all(self, first: StageItem) -> None:
        """Hand on the frames that the request is resumed with, and those that follow."""
        frames = self._request.resume_frames
        for num_frames, frame in enumerate(frames, start=1):
            self._append(frame, num_frames)
        num_frames, item = len(frames), first
        while isinstance(item, FrameReady):
            num_frames += 1
            self._append(item.frame, num_frames)
            await self._room.acquire()
            item = await anext(self._upstream)
        assert isinstance(item, Ended)
        self.ended = item
        self._append(None, None)

    def on_read(self, num_frames: int) -> None:
        """Note that the consumer has taken the audio of frames."""
        for _ in range(num_frames):
            self._room.release()

    def _append(self, frame: Any, num_frames: int | None) -> None:
        self._engine.append(self._request.id, Piece(data=frame, num_frames_allowed=num_frames))


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


def shared_engines(
    chains: Mapping[str, tuple[tuple[StageSpec, ...], ...]],
) -> dict[str, tuple[tuple[StageSpec, ...], ...]]:
    """Let tasks whose first stage is also that of another task's engine use that engine.

    A model that speaks and writes is so in memory once. What the decoder of that engine does not
    decode is handed over as it is; see `antiphon.contracts.prompt.Prompt.is_decoded`.

    Args:
        chains: stages of each task, by engine.
    """
    joined = {group[0]: group for chain in chains.values() for group in chain if len(group) > 1}
    return {
        name: tuple(joined.get(group[0], group) if len(group) == 1 else group for group in chain)
        for name, chain in chains.items()
    }


def build_stage(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> Stage:
    """Load the model code of stages of one device, decoders first, and put a driver around it."""
    name = "+".join(spec.name for spec in specs)
    *rest, model = [_load(spec, context) for spec in reversed(specs)]
    match [spec.kind for spec in specs]:
        case [StageKind.ENCODER] if isinstance(model, BatchEncoder):
            return EncoderStage(model, specs[0], context, publish)
        case [StageKind.GENERATOR | StageKind.ENCODER]:
            return GeneratorStage(model, specs[0], context, publish)
        case [StageKind.DIFFUSION]:
            return DiffusionStage(model, specs[0], context, publish)
        case [StageKind.AUTOREGRESSIVE]:
            return EngineStage(model, name, context, publish)
        case [StageKind.DECODER]:
            return EngineStage(CodecRunner(model, context.max_slots), name, context, publish)
        case [StageKind.AUTOREGRESSIVE, StageKind.DECODER]:
            return EngineStage(FusedRunner(model, rest[0]), name, context, publish)
        case kinds:
            raise AssertionError(f"stages {kinds} cannot share a device")


def _load(spec: StageSpec, context: LoadContext) -> Any:
    """Load the model code of a stage, in processes of its own if several share its work."""
    if spec.kind is StageKind.DIFFUSION and context.diffusion.num_processes > 1:
        from antiphon.diffusion.parallel import ParallelDenoiser

        return ParallelDenoiser(spec.factory, context)
    return spec.factory.resolve()(context)
