"""The kinds of stages: each drives one kind of model code and knows no model."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

from antiphon.codec.protocol import StreamingDecoder
from antiphon.codec.runner import BatchedDecoder
from antiphon.codec.slots import DecoderStream
from antiphon.concurrency import Workers
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.runner import Runner
from antiphon.fabric.base import Stage, StageItem, StageRequest, StageStream
from antiphon.models.base import Piece, Prompt, SpeechGenerator
from antiphon.models.spec import LoadContext, StageKind, StageSpec
from antiphon.pipeline.feeding import fed
from antiphon.types import AudioChunk, Ended, FrameReady


class GeneratorStage:
    """Pulls a generator piece by piece in worker threads: no piece is made before it is wanted."""

    def __init__(self, generator: SpeechGenerator) -> None:
        self._generator = generator
        self._workers = Workers("generator")

    async def run(
        self, request: StageRequest, upstream: StageStream | None
    ) -> AsyncGenerator[StageItem, None]:
        assert upstream is None
        pieces = self._generator.generate(request.prompt)
        try:
            while (chunk := await self._workers.run(next, pieces, None)) is not None:
                yield chunk
            yield Ended("stop")
        finally:
            pieces.close()

    @property
    def failure(self) -> str | None:
        return None  # a generator that raises fails its own request alone

    @property
    def stalled_s(self) -> float:
        return 0.0  # a thread of many: the others go on

    async def close(self) -> None:
        self._workers.close()
        self._generator.close()


class AutoregressiveStage:
    """Hands prompts to an engine and streams its frames."""

    def __init__(self, runner: Runner, name: str) -> None:
        self._engine = AsyncEngine(runner, name=name)

    async def run(
        self, request: StageRequest, upstream: StageStream | None
    ) -> AsyncGenerator[StageItem, None]:
        assert upstream is None
        events: StageStream = self._engine.generate(request.id, request.prompt)
        if request.pieces is not None:
            events = fed(events, partial(self._feed, request.id, request.pieces))
        async with aclosing(events):
            async for event in events:
                yield event

    async def _feed(self, request_id: str, pieces: AsyncGenerator[Piece, None]) -> None:
        async with aclosing(pieces):
            async for piece in pieces:
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

    async def run(
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
        """Open a stream; it is led through the prompt's context while the first frame is made."""
        stream = self._decoder.open()
        try:
            if prompt.context_frames is not None:
                self._decoder.lead(stream, prompt.context_frames)
            yield stream
        finally:
            self._decoder.close(stream)

    @property
    def failure(self) -> str | None:
        return self._decoder.failure

    @property
    def stalled_s(self) -> float:
        return 0.0  # it has no steps of its own

    async def close(self) -> None:
        await self._decoder.shut_down()


def build_stage(spec: StageSpec, context: LoadContext) -> Stage:
    """Load a stage's model code and put the driver of its kind around it."""
    loaded = spec.factory.resolve()(context)
    match spec.kind:
        case StageKind.GENERATOR:
            return GeneratorStage(loaded)
        case StageKind.AUTOREGRESSIVE:
            return AutoregressiveStage(loaded, spec.name)
        case StageKind.DECODER:
            return DecoderStage(loaded, context.max_slots, spec.name)
