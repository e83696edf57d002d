"""Speaks a script: segment after segment, the next begun while one is heard, joined into a stream.

A segment keeps its seed wherever it is spoken, so that one that was spoken before, and kept, may be
taken instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from antiphon.audio.chain import Chain
from antiphon.audio.joining import Joiner
from antiphon.concurrency import Workers
from antiphon.errors import EngineError, RateLimitError
from antiphon.fabric.base import StageRequest
from antiphon.models.base import Prompt
from antiphon.pipeline.speech.model import LoadedModel
from antiphon.pipeline.speech.pronunciation import Pronunciations
from antiphon.pipeline.speech.text import Boundary, segment_seed
from antiphon.pipeline.speech.text_buffer import Prefetcher
from antiphon.pipeline.speech.text_plan import Script, Section, Segment, TextLimits, plan_text
from antiphon.pipeline.speech.unspoken import unspoken_words
from antiphon.telemetry.tracing import span
from antiphon.types import (
    AudioChunk,
    Ended,
    FinishReason,
    Samples,
    SpeechRequest,
    SpeechStream,
    Usage,
    Voice,
    WordTime,
)

T = TypeVar("T")

PAUSE_S = {
    Boundary.NONE: None,
    Boundary.WORD: 0.0,
    Boundary.SENTENCE: 0.25,
    Boundary.PARAGRAPH: 0.6,
}
"""Least silence before a segment, by what joins it to the one before; quiet ends count."""


class SegmentSource(Protocol):
    """Where a journey's segments come from, if not from the model straight away."""

    def open(self, segment: Segment, speak: Callable[[], SpeechStream]) -> SpeechStream:
        """Return a segment's audio and end, as ``speak()`` would give them."""
        ...

    def plan(self, script: Script) -> None:
        """Hear what will be spoken, before the first segment is opened."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis:
    """All that one request needs to be spoken; see `events`.

    Attributes:
        request: complete: it has a seed, and sampling.
        voice: who speaks.
        model: what speaks.
        workers: threads for prompts and transforms.
        pronunciations: of the server.
        max_characters: of the text as it is read.
        source: where segments come from; ``None`` for the model.
    """

    request: SpeechRequest
    voice: Voice
    model: LoadedModel
    workers: Workers
    pronunciations: Pronunciations
    max_characters: int
    source: SegmentSource | None = None

    async def events(self) -> SpeechStream:
        """Yield the audio, then one `Ended`.

        Raises:
            InvalidRequestError: before the first chunk.
            EngineError: the model failed.
        """
        script, prompt, unspoken = await self.workers.run(self._begin)
        is_told = False
        usage = Usage()
        reason: FinishReason = "stop"
        native_hz = self.model.capabilities.sample_rate_hz
        start_s = 0.0
        async with aclosing(self._items(script, prompt)) as items:
            for passage in script:
                track = _Track(native_hz, self.request, self.workers, start_s)
                async with aclosing(self._passage(passage, items, track)) as events:
                    async for event in events:
                        if isinstance(event, Ended):
                            usage = _sum(usage, event.usage)
                            reason = _worse(reason, event.reason)
                        else:
                            yield event if is_told else replace(event, unspoken=unspoken)
                            is_told = True
                async with aclosing(_silence(passage.pause_s, track.sample_rate_hz)) as chunks:
                    async for chunk in chunks:
                        yield chunk if is_told else replace(chunk, unspoken=unspoken)
                        is_told = True
                start_s += track.num_samples / track.sample_rate_hz + passage.pause_s
        yield Ended(reason, usage, unspoken)

    def _begin(self) -> tuple[Script, Prompt | None, tuple[str, ...]]:
        """Write the script, build its first prompt, and see what will not be spoken, in one go."""
        capabilities = self.model.capabilities
        limits = TextLimits(
            segment_characters=capabilities.max_segment_characters,
            reads_late=capabilities.late_text,
            num_characters=self.max_characters,
        )
        pronunciations = self.pronunciations.extended(self.request.pronunciations)
        script = plan_text(self.request, pronunciations, limits)
        segments = [each for passage in script for each in passage.segments]
        texts = (each.text for each in segments)
        unspoken = unspoken_words(self.model.prompter, self.voice, texts)
        prompt = self._prompt(segments[0]) if self.source is None else None
        return script, prompt, unspoken

    def _prompt(self, segment: Segment) -> Prompt:
        assert self.request.seed is not None
        part = replace(self.request, input=segment.text)
        seed = segment_seed(self.request.seed, segment.index)
        with span("prompt"):
            return self.model.prompter.build(part, self.voice, seed)

    def _items(self, script: Script, prompt: Prompt | None) -> SpeechStream:
        """Return the events of all segments, in order."""
        if self.source is not None:
            self.source.plan(script)
        first, *rest = [segment for passage in script for segment in passage.segments]
        if not rest:
            return self._opened(first, prompt)  # nothing is made before it is wanted
        later = [partial(self._opened, segment) for segment in rest]
        return one_ahead([partial(self._opened, first, prompt), *later])

    def _opened(self, segment: Segment, prompt: Prompt | None = None) -> SpeechStream:
        speak = partial(self._spoken, segment, prompt)
        return speak() if self.source is None else self.source.open(segment, speak)

    async def _spoken(self, segment: Segment, prompt: Prompt | None) -> SpeechStream:
        """Speak a segment; a later one, and a job's, waits where a first one is refused."""
        if prompt is None:
            prompt = await self.workers.run(self._prompt, segment)
        while True:
            try:
                async with aclosing(self._staged(segment, prompt)) as events:
                    async for event in events:
                        yield event
                return
            except RateLimitError as error:
                if segment.index == 0 and self.source is None:
                    raise
                await asyncio.sleep(error.retry_after_s or 1.0)

    async def _staged(self, segment: Segment, prompt: Prompt) -> SpeechStream:
        num_frames = 0
        request = self.request
        stage_request = StageRequest(
            f"{request.id}-{segment.index}",
            prompt,
            is_live=request.is_live,
            stream_id=request.follows or request.id,
            is_later=request.follows is not None or segment.index > 0,
            speed=request.speed,
        )
        async with aclosing(self.model.open(stage_request)) as items:
            async for item in items:
                if isinstance(item, AudioChunk):
                    num_frames += item.num_frames
                    yield item
                elif isinstance(item, Ended):
                    yield Ended(item.reason, Usage(prompt.num_tokens, num_frames))

    async def _passage(
        self, passage: Section, items: SpeechStream, track: "_Track"
    ) -> SpeechStream:
        """Join a passage's segments; each is followed by its `Ended`."""
        for place, segment in enumerate(passage.segments, start=1):
            min_pause_s = PAUSE_S[segment.joint]
            for chunk in await track.begin(min_pause_s, has_next=place < len(passage.segments)):
                yield chunk
            while isinstance(item := await anext(items), AudioChunk):
                for chunk in await track.push(item):
                    yield chunk
            for chunk in await track.end():
                yield chunk
            yield item
        for chunk in await track.flush():
            yield chunk


async def _silence(duration_s: float, rate_hz: int) -> AsyncGenerator[AudioChunk, None]:
    """Yield silence of a length that no change of speed touches, a second at a time.

    Others have their turn in between: nothing has to be waited for, so nobody else would let them.
    """
    second: Samples = np.zeros(rate_hz, np.float32)
    second.flags.writeable = False  # all chunks are this one
    num_left = round(duration_s * rate_hz)
    while num_left:
        num_samples = min(num_left, rate_hz)
        yield AudioChunk(second[:num_samples], rate_hz)
        num_left -= num_samples
        await asyncio.sleep(0)


class _Track:
    """Joins segments and transforms what comes of it; one for each passage."""

    def __init__(
        self, native_hz: int, request: SpeechRequest, workers: Workers, start_s: float
    ) -> None:
        """Begin ``start_s`` after the beginning of the stream."""
        self._joiner = Joiner(native_hz)
        self.sample_rate_hz = request.sample_rate_hz or native_hz
        self._chain = Chain.build(native_hz, self.sample_rate_hz, request.speed)
        self._workers = workers
        self._start_s = start_s
        self._seconds_a_sample = 1 / (native_hz * request.speed)
        self._speed = request.speed
        self._num_joined = 0
        self._segment_start_s = start_s
        self._words: tuple[WordTime, ...] = ()
        self.num_samples = 0

    async def begin(self, min_pause_s: float | None, *, has_next: bool) -> list[AudioChunk]:
        chunks = await self._transformed(self._joiner.begin(min_pause_s, has_next=has_next))
        self._segment_start_s = self._start_s + self._num_joined * self._seconds_a_sample
        return chunks

    async def push(self, chunk: AudioChunk) -> list[AudioChunk]:
        self._words += tuple(map(self._placed, chunk.words))
        return await self._transformed(self._joiner.push(chunk.samples), chunk.num_frames)

    async def end(self) -> list[AudioChunk]:
        return await self._transformed(self._joiner.end())

    async def flush(self) -> list[AudioChunk]:
        if self._chain.is_identity:
            return []
        return self._chunks(await self._workers.run(self._chain.flush), 0)

    async def _transformed(self, samples: Samples, num_frames: int = 0) -> list[AudioChunk]:
        self._num_joined += len(samples)
        if not self._chain.is_identity and len(samples):
            samples = await self._workers.run(self._chain.push, samples)
        return self._chunks(samples, num_frames)

    def _chunks(self, samples: Samples, num_frames: int) -> list[AudioChunk]:
        """Wrap samples; words wait for the first that leave after them."""
        if not len(samples):
            return []
        self.num_samples += len(samples)
        words, self._words = self._words, ()
        return [AudioChunk(samples, self.sample_rate_hz, num_frames, words)]

    def _placed(self, time: WordTime) -> WordTime:
        """Return when a word of the segment is heard in the stream."""
        start_s, end_s = (
            self._segment_start_s + each_s / self._speed for each_s in (time.start_s, time.end_s)
        )
        return WordTime(time.word, start_s, end_s)


async def one_ahead(
    openings: Sequence[Callable[[], AsyncGenerator[T, None]]],
) -> AsyncGenerator[T, None]:
    """Yield what all streams give, in order; each begins once the one before has begun to give."""
    under_way: deque[Prefetcher[T]] = deque()
    waiting = deque(openings)
    try:
        while under_way or waiting:
            if not under_way:
                under_way.append(Prefetcher(waiting.popleft()()))
            async with aclosing(under_way[0].items()) as items:
                async for item in items:
                    if len(under_way) == 1 and waiting:
                        under_way.append(Prefetcher(waiting.popleft()()))
                    yield item
            await under_way[0].close()
            under_way.popleft()
    finally:
        await asyncio.gather(*(each.close() for each in under_way))


def _sum(left: Usage, right: Usage) -> Usage:
    return Usage(left.input_tokens + right.input_tokens, left.output_tokens + right.output_tokens)


def _worse(so_far: FinishReason, segment: FinishReason) -> FinishReason:
    """Return the whole's reason: one segment cut by a limit marks all of it.

    Raises:
        EngineError: the segment was dropped although its listener is still there.
    """
    if segment in ("abort", "error"):
        raise EngineError("The model stopped before the end of the text.")
    return segment if so_far == "stop" else so_far
