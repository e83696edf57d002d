"""The kinds of stages: each drives one kind of model code and knows no model."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from antiphon.codec.protocol import StreamingDecoder
from antiphon.concurrency import Workers
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.runner import Runner
from antiphon.fabric.base import Stage, StageItem, StageRequest, StageStream
from antiphon.models.base import SpeechGenerator
from antiphon.models.spec import LoadContext, StageKind, StageSpec
from antiphon.types import AudioChunk, Ended, FrameReady, Samples


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
        async with aclosing(self._engine.generate(request.id, request.prompt)) as events:
            async for event in events:
                yield event

    @property
    def failure(self) -> str | None:
        return self._engine.failure

    async def close(self) -> None:
        await self._engine.close()


class DecoderStage:
    """Groups frames, a small group first, and decodes each once."""

    def __init__(
        self, decoder: StreamingDecoder, *, first_chunk_frames: int = 1, chunk_frames: int = 4
    ) -> None:
        self._decoder = decoder
        self._first_chunk_frames = first_chunk_frames
        self._chunk_frames = chunk_frames
        self._workers = Workers("decoder")

    async def run(
        self, request: StageRequest, upstream: StageStream | None
    ) -> AsyncGenerator[StageItem, None]:
        assert upstream is not None
        state = self._decoder.open()
        frames: list[Any] = []
        num_wanted = self._first_chunk_frames
        async with aclosing(upstream):
            async for item in upstream:
                if isinstance(item, FrameReady):
                    frames.append(item.frame)
                if len(frames) >= num_wanted or (frames and isinstance(item, Ended)):
                    samples = await self._workers.run(self._decoder.decode, frames, state)
                    yield self._chunk(samples, len(frames))
                    frames, num_wanted = [], self._chunk_frames
                if isinstance(item, Ended):
                    yield item

    def _chunk(self, samples: Samples, num_frames: int) -> AudioChunk:
        return AudioChunk(samples, self._decoder.sample_rate_hz, num_frames)

    @property
    def failure(self) -> str | None:
        return None

    async def close(self) -> None:
        self._workers.close()
        self._decoder.close()


def build_stage(spec: StageSpec, context: LoadContext) -> Stage:
    """Load a stage's model code and put the driver of its kind around it."""
    loaded = spec.factory.resolve()(context)
    match spec.kind:
        case StageKind.GENERATOR:
            return GeneratorStage(loaded)
        case StageKind.AUTOREGRESSIVE:
            return AutoregressiveStage(loaded, spec.name)
        case StageKind.DECODER:
            return DecoderStage(loaded)
