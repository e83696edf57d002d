"""Text pushed in pieces becomes speech: utterance after utterance, the next begun while one plays.

An utterance is cut into segments as its text arrives. Two of its segments are under way at most:
the one that is heard and the one after it. The next utterance's first segment is begun as well, so
that no listener waits between two.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from antiphon.audio.chain import Chain
from antiphon.audio.joining import Joiner
from antiphon.errors import InputTooLongError, InvalidRequestError, UnspeakableTextError
from antiphon.pipeline.speech.segment_speech import SegmentSpeech, total
from antiphon.pipeline.speech.segmenter import MAX_CHARACTERS_AT_ONCE, Part, pieces_of
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.synthesis import PAUSE_S
from antiphon.pipeline.speech.text import Boundary
from antiphon.pipeline.speech.text_buffer import Prefetcher, TextBuffer
from antiphon.pipeline.speech.unspoken import joined
from antiphon.types import (
    AudioChunk,
    Ended,
    FinishReason,
    Samples,
    SpeechEvent,
    SpeechRequest,
    SpeechStream,
    Usage,
    WordTime,
)

SEGMENTS_UNDER_WAY = (2, 1)
"""Of the utterance that is heard, and of the next."""


class Utterance:
    """One thing to be said, whose text is pushed in pieces.

    Attributes:
        sample_rate_hz: of its audio.
        num_characters: pushed so far.
    """

    def __init__(self, speech: Speech, request: SpeechRequest, *, reads_late: bool = True) -> None:
        """Begin with no text; nothing is spoken before it is `admit`-ted.

        Raises:
            InvalidRequestError: the request cannot be spoken, whatever its text is.
        """
        self._segment_speech = SegmentSpeech(speech, request, reads_late=reads_late)
        self._max_characters = speech.settings.max_input_characters
        self._workers = speech.workers
        native_hz = self._segment_speech.sample_rate_hz
        self.sample_rate_hz = request.sample_rate_hz or native_hz
        self._build_chain = partial(Chain.build, native_hz, self.sample_rate_hz, request.speed)
        self._seconds_a_sample = 1 / (native_hz * request.speed)
        self._cutter = self._segment_speech.cutter()
        self.num_characters = 0
        self._is_complete = False
        self._to_cut: deque[Callable[[], None]] = deque()
        self._cutting: asyncio.Task[None] | None = None
        self._current: TextBuffer | None = None
        self._joint = Boundary.NONE
        self._texts: asyncio.Queue[TextBuffer | None] = asyncio.Queue()
        self._num_admitted = 0
        self._turns = asyncio.Semaphore(0)
        self._ready: asyncio.Queue[tuple[TextBuffer, Prefetcher[SpeechEvent]] | None] = (
            asyncio.Queue()
        )
        self._under_way: set[Prefetcher[SpeechEvent]] = set()
        self._opening: asyncio.Task[None] | None = None

    def push(self, text: str) -> None:
        """Add text.

        Raises:
            InputTooLongError: it would be longer than the server accepts; nothing is added.
        """
        assert not self._is_complete, "text came after its end"
        num_characters = self.num_characters + len(text)
        if num_characters > self._max_characters:
            raise InputTooLongError(num_characters, self._max_characters)
        self.num_characters = num_characters
        if len(text) <= MAX_CHARACTERS_AT_ONCE:
            self._in_turn(partial(self._cut, text))
            return
        self._to_cut += [partial(self._cut, piece) for piece in pieces_of(text)]
        if self._cutting is None or self._cutting.done():
            self._cutting = asyncio.create_task(self._cut_in_turn())

    def flush(self) -> None:
        """Speak what there is without waiting for the end of its sentence."""
        self._in_turn(lambda: self._take(self._cutter.flush()))

    def complete(self) -> None:
        """Say that no more text comes; may be called again."""
        if not self._is_complete:
            self.flush()
            self._is_complete = True
            self._in_turn(lambda: self._texts.put_nowait(None))

    def admit(self, num_segments: int) -> None:
        """Let this many segments be under way at the same time, never fewer than before."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open_segments())
        for _ in range(num_segments - self._num_admitted):
            self._turns.release()
        self._num_admitted = max(num_segments, self._num_admitted)

    async def events(self) -> SpeechStream:
        """Yield the audio of all segments, joined, then one `Ended`; call once.

        Raises:
            InvalidRequestError: before the first chunk; there was no text, for one.
            EngineError: the model failed, possibly after some chunks.
        """
        reason: FinishReason = "stop"
        usage = Usage()
        unspoken: tuple[str, ...] = ()
        has_text = has_audio = False
        chain, joiner = self._build_chain(), Joiner(self._segment_speech.sample_rate_hz)
        words = _Words(self._seconds_a_sample)
        while (ready := await self._ready.get()) is not None:
            has_text = True
            text, segment = ready
            async with aclosing(self._joined(text, segment, joiner)) as items:
                async for item in items:
                    if isinstance(item, Ended):
                        usage = total(usage, item.usage)
                        reason = item.reason if reason == "stop" else reason
                        unspoken = joined(unspoken, item.unspoken)
                        continue
                    words.push(item)
                    if len(samples := await self._transformed(chain, item.samples)):
                        has_audio = True
                        told = words.take()
                        yield AudioChunk(samples, self.sample_rate_hz, item.num_frames, told)
            words.end_segment()
            await self._closed(segment)
            self._turns.release()
        if not has_text:
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        if unspoken and not has_audio:
            raise UnspeakableTextError(self._segment_speech.voice_name, unspoken)
        if len(tail := await self._workers.run(chain.flush)):
            yield AudioChunk(tail, self.sample_rate_hz, words=words.take())
        yield Ended(reason, usage, unspoken)

    async def close(self) -> None:
        """Stop all work, wherever it is; returns when everything is free."""
        for task in (self._cutting, self._opening):
            if task is not None:
                task.cancel()  # no-op if it has ended
                await asyncio.wait([task])
        await asyncio.gather(*(self._closed(segment) for segment in tuple(self._under_way)))

    async def _open_segments(self) -> None:
        """Begin each segment when its turn has come."""
        index = 0
        while (text := await self._texts.get()) is not None:
            await self._turns.acquire()
            segment = Prefetcher(self._segment_speech.open(index, text))
            self._under_way.add(segment)
            self._ready.put_nowait((text, segment))
            index += 1
        self._ready.put_nowait(None)

    async def _closed(self, segment: Prefetcher[SpeechEvent]) -> None:
        await segment.close()
        self._under_way.discard(segment)

    async def _joined(
        self, text: TextBuffer, segment: Prefetcher[SpeechEvent], joiner: Joiner
    ) -> SpeechStream:
        """Join a segment to the one before, as those of a text that came whole.

        Sentences that are spoken one by one are left as the model has made them.
        """
        if not self._segment_speech.reads_late:
            async with aclosing(segment.items()) as items:
                async for item in items:
                    yield item
            return
        rate_hz = self._segment_speech.sample_rate_hz
        pause = joiner.begin(PAUSE_S[text.joint], has_next=True)
        yield AudioChunk(pause, rate_hz)
        async with aclosing(segment.items()) as items:
            async for item in items:
                if isinstance(item, Ended):
                    await text.closed()
                    has_next = text.next_joint is not Boundary.NONE
                    yield AudioChunk(joiner.end(has_next=has_next), rate_hz)
                    yield item
                else:
                    words = tuple(each.later(len(pause) / rate_hz) for each in item.words)
                    yield AudioChunk(joiner.push(item.samples), rate_hz, item.num_frames, words)

    def _cut(self, text: str) -> None:
        self._take(self._cutter.push(text))

    def _in_turn(self, action: Callable[[], None]) -> None:
        """Do something to the text, now or after what waits to be cut."""
        if self._to_cut:
            self._to_cut.append(action)
        else:
            action()

    async def _cut_in_turn(self) -> None:
        """Cut a long text in pieces, between which others have a turn."""
        while self._to_cut:
            self._to_cut[0]()
            self._to_cut.popleft()
            await asyncio.sleep(0)

    def _take(self, parts: list[Part]) -> None:
        """Give parts to their segments; a segment begins with its first letter."""
        for part in parts:
            if self._current is None:
                if not part.text.strip():
                    continue
                self._current, self._joint = TextBuffer(self._joint), Boundary.NONE
                self._texts.put_nowait(self._current)
            if part.text:
                self._current.push(part.text)
            if part.ends_segment:
                self._current.close(part.joint)
                self._current, self._joint = None, part.joint

    async def _transformed(self, chain: Chain, samples: Samples) -> Samples:
        if chain.is_identity or not len(samples):
            return samples
        return await self._workers.run(chain.push, samples)


class _Words:
    """Times of an utterance's words, of those that its segments tell."""

    def __init__(self, seconds_a_sample: float) -> None:
        """Begin; a segment's sample is heard for so long."""
        self._seconds_a_sample = seconds_a_sample
        self._num_samples = 0
        self._segment_start_s = 0.0
        self._waiting: tuple[WordTime, ...] = ()

    def push(self, chunk: AudioChunk) -> None:
        """Note what a segment's chunk tells."""
        pace = chunk.sample_rate_hz * self._seconds_a_sample
        start_s = self._segment_start_s
        self._waiting += tuple(
            WordTime(each.word, start_s + each.start_s * pace, start_s + each.end_s * pace)
            for each in chunk.words
        )
        self._num_samples += len(chunk.samples)

    def take(self) -> tuple[WordTime, ...]:
        """Return what has been noted since the last call."""
        taken, self._waiting = self._waiting, ()
        return taken

    def end_segment(self) -> None:
        """Let the next segment begin where this one has ended."""
        self._segment_start_s = self._num_samples * self._seconds_a_sample


class SpeechSession:
    """The utterances of one listener, in the order in which they were opened."""

    def __init__(self, speech: Speech) -> None:
        self._speech = speech
        self._utterances: list[Utterance] = []

    def open(self, request: SpeechRequest, *, reads_late: bool = True) -> Utterance:
        """Begin an utterance; its text is pushed afterwards.

        Args:
            request: what is said of it but its text.
            reads_late: whether to speak text as it arrives, if the family can, rather than by
                sentences.

        Raises:
            InvalidRequestError: the request cannot be spoken, whatever its text is.
        """
        utterance = Utterance(self._speech, request, reads_late=reads_late)
        self._utterances.append(utterance)
        self._admit()
        return utterance

    @property
    def num_characters(self) -> int:
        """Of all utterances that have not ended."""
        return sum(utterance.num_characters for utterance in self._utterances)

    async def check(self, request: SpeechRequest) -> None:
        """Find out whether a request could be spoken, but for its text.

        Raises:
            InvalidRequestError: it could not; names the field and what is allowed.
        """
        await SegmentSpeech(self._speech, request).check()

    async def end(self, utterance: Utterance) -> None:
        """Close an utterance, spoken or not, and let the next have its turn.

        If this is cancelled, `clear` still closes it.
        """
        await utterance.close()
        if utterance in self._utterances:
            self._utterances.remove(utterance)
            self._admit()

    async def clear(self) -> None:
        """Drop all utterances; returns when everything is free."""
        dropped, self._utterances = self._utterances, []
        await asyncio.gather(*(utterance.close() for utterance in dropped))

    def _admit(self) -> None:
        for utterance, num_segments in zip(self._utterances, SEGMENTS_UNDER_WAY, strict=False):
            utterance.admit(num_segments)
