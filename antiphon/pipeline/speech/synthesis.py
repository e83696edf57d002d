"""The audio of one utterance: its room, its statistics, and its segments joined into one stream."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from antiphon.audio.chain import Chain
from antiphon.audio.joining import Joiner
from antiphon.concurrency import Workers
from antiphon.contracts.family import VoiceCapabilities
from antiphon.contracts.prompt import Prompter, SupportsTextChecks
from antiphon.contracts.types import (
    AudioChunk,
    Ended,
    Samples,
    SpeechRequest,
    SpeechStream,
    Voice,
    WordTime,
)
from antiphon.errors import UnspeakableTextError
from antiphon.pipeline.reservation import Reservation
from antiphon.pipeline.speech.model import VoiceModel
from antiphon.pipeline.speech.text import Boundary
from antiphon.telemetry.metrics import Metrics
from antiphon.telemetry.stream_stats import StreamStats

PAUSE_S = {
    Boundary.NONE: None,
    Boundary.WORD: 0.0,
    Boundary.SENTENCE: 0.25,
    Boundary.PARAGRAPH: 0.6,
}
"""Least silence at a boundary; the quiet end of the segment before counts."""
LEAD_S = 0.05
"""Silence before a sentence, which is a part of the pause."""

MAX_WORDS = 50
MAX_WORD_CHARACTERS = 40


class SegmentMixer:
    """The audio of one section."""

    def __init__(
        self,
        capabilities: VoiceCapabilities,
        request: SpeechRequest,
        voice: Voice,
        workers: Workers,
        start_s: float,
    ) -> None:
        """Begin ``start_s`` after the beginning of the stream, with the model's segments."""
        native_hz, channels = capabilities.sample_rate_hz, capabilities.channels
        self.sample_rate_hz = request.sample_rate_hz or native_hz
        self.num_samples = 0
        self._joiner = Joiner(native_hz, channels)
        gain_db = None
        if voice.loudness_lufs is not None and isinstance(request.loudness_lufs, float | int):
            gain_db = request.loudness_lufs - voice.loudness_lufs
        self._chain = Chain(native_hz, self.sample_rate_hz, request.speed, channels, gain_db)
        self._sentence_pause_ms = request.sentence_pause_ms
        self._workers = workers
        self._volume = np.float32(request.volume)
        self._start_s = self._segment_start_s = start_s
        self._speed = request.speed
        self._native_hz = native_hz
        self._num_joined = 0
        self._words: tuple[WordTime, ...] = ()

    async def begin(self, boundary: Boundary, *, has_next: bool) -> list[AudioChunk]:
        """Begin a segment; see `Joiner.begin`."""
        silence = self._joiner.begin(self._pause_s(boundary), has_next=has_next)
        chunks = await self._transformed(silence, 0)
        joined_s = self._num_joined / (self._native_hz * self._speed)
        self._segment_start_s = self._start_s + joined_s
        return chunks

    async def push(self, chunk: AudioChunk) -> list[AudioChunk]:
        if chunk.words:
            self._words += tuple(map(self._placed, chunk.words))
        return await self._transformed(self._joiner.push(chunk.samples), chunk.num_frames)

    async def end(self, *, is_last: bool) -> list[AudioChunk]:
        """End the segment; after the last one of the section, return all that is left."""
        chunks = await self._transformed(self._joiner.end(has_next=not is_last), 0)
        if not is_last or self._chain.is_identity:
            return chunks
        return [*chunks, *self._chunks(await self._workers.run(self._chain.flush), 0)]

    async def _transformed(self, samples: Samples, num_frames: int) -> list[AudioChunk]:
        self._num_joined += len(samples)
        if not self._chain.is_identity and len(samples):
            samples = await self._workers.run(self._chain.push, samples)
        return self._chunks(samples, num_frames)

    def _chunks(self, samples: Samples, num_frames: int) -> list[AudioChunk]:
        """Wrap samples; words wait for the first samples that leave after them."""
        if not len(samples):
            return []
        self.num_samples += len(samples)
        if self._volume != 1:
            samples = samples * self._volume
        words, self._words = self._words, ()
        return [AudioChunk(samples, self.sample_rate_hz, num_frames, words)]

    def _pause_s(self, boundary: Boundary) -> float | None:
        pause_s = PAUSE_S[boundary]
        if self._sentence_pause_ms is None or boundary in (Boundary.NONE, Boundary.WORD):
            return pause_s
        wanted_s = max(0.0, self._sentence_pause_ms / 1000 - LEAD_S)
        return wanted_s if boundary is Boundary.SENTENCE else max(wanted_s, pause_s or 0.0)

    def _placed(self, time: WordTime) -> WordTime:
        begin_s, speed = self._segment_start_s, self._speed
        start_s, end_s = begin_s + time.start_s / speed, begin_s + time.end_s / speed
        return replace(time, start_s=start_s, end_s=end_s)


class Synthesis(ABC):
    """One utterance, whatever it is made from; a subclass plays its segments."""

    def __init__(
        self, model: VoiceModel, request: SpeechRequest, workers: Workers, metrics: Metrics
    ) -> None:
        """Prepare an utterance with the options of ``request``, whose text is not used."""
        self._model, self._request = model, request
        self._workers, self._metrics = workers, metrics
        self._mixer: SegmentMixer | None = None
        self._start_s = 0.0
        self._ended = Ended("stop")  # of what has ended so far
        self._has_spoken = False
        self._stats: StreamStats | None = None
        self._place: Reservation | None = None

    @property
    def sample_rate_hz(self) -> int:
        return self._request.sample_rate_hz or self._model.capabilities.sample_rate_hz

    @property
    def _is_admitted(self) -> bool:
        return self._place is not None and self._place.is_taken

    async def reserve(self) -> None:
        """Have the audio admitted before there is anything to speak; see `Reservation.take`."""
        self._place = Reservation(self._model, self._request, self._metrics)
        await self._place.take()

    async def release(self) -> None:
        """Give up what was reserved; may be called again."""
        if self._place is not None:
            await self._place.release()

    async def close(self) -> None:
        """Stop all work, wherever it is; returns when everything is free."""
        await self.release()

    async def events(self) -> SpeechStream:
        """Yield the audio, then one `Ended`; call once.

        Raises:
            InvalidRequestError: before the first chunk.
            EngineError: the model failed, possibly after some chunks.
        """
        is_first = True
        try:
            voice = await self._find_voice()
            with self._metrics.observe(self._model.name, voice.kind) as stats:
                self._stats = stats
                while (chunks := await self._step()) is not None:
                    for chunk in chunks:
                        stats.record_chunk(chunk.duration_s)
                        yield replace(chunk, unspoken=self._ended.unspoken) if is_first else chunk
                        is_first = False
                        stats.ask()
                if self._ended.unspoken and not self._has_spoken:
                    raise UnspeakableTextError(self._ended.unspoken, voice.id)
                stats.end(self._ended)
                yield self._ended
        finally:
            self._stats = None
            await self.close()

    @abstractmethod
    async def _find_voice(self) -> Voice:
        """Return the voice of the utterance."""

    @abstractmethod
    async def _step(self) -> list[AudioChunk] | None:
        """Return the next audio, possibly none; ``None`` at the end."""

    async def _begin_segment(
        self, voice: Voice, boundary: Boundary, *, has_next: bool
    ) -> list[AudioChunk]:
        """Begin a segment, and its section if none has begun; see `SegmentMixer.begin`."""
        if self._mixer is None:
            self._mixer = SegmentMixer(
                self._model.capabilities, self._request, voice, self._workers, self._start_s
            )
        return await self._mixer.begin(boundary, has_next=has_next)

    async def _push(self, chunk: AudioChunk) -> list[AudioChunk]:
        """Return the audible part of a segment's next audio."""
        assert self._mixer is not None, "a segment has begun"
        self._has_spoken = True
        return await self._mixer.push(chunk)

    async def _end_segment(self, ended: Ended, *, is_last: bool) -> list[AudioChunk]:
        """Count how a segment ended, and return its rest; ``is_last``: its section's too."""
        mixer = self._mixer
        assert mixer is not None, "a segment has begun"
        self._ended = both_ended(self._ended, ended)
        chunks = await mixer.end(is_last=is_last)
        if is_last:
            self._start_s += mixer.num_samples / mixer.sample_rate_hz
            self._mixer = None
        return chunks


def unspoken_words(
    prompter: Prompter, voice: Voice, language: str | None, texts: Iterable[str]
) -> tuple[str, ...]:
    """Return what ``voice`` leaves out of a text, given as its segments; see `Ended.unspoken`.

    Raises:
        UnspeakableTextError: all of it; punctuation alone is no text that could be left out.
    """
    if not isinstance(prompter, SupportsTextChecks):
        return ()
    words: tuple[str, ...] = ()
    is_spoken = False
    for text in texts:
        check = prompter.check_text(text, voice, language)
        words = joined(words, check.unspoken)
        is_spoken = is_spoken or check.is_spoken
        if is_spoken and len(words) == MAX_WORDS:
            break
    if words and not is_spoken:
        raise UnspeakableTextError(words, voice.id)
    return words


def both_ended(first: Ended, then: Ended) -> Ended:
    """Return how two parts of a stream have ended together: as the first that was cut, if any."""
    reason = then.reason if first.reason == "stop" else first.reason
    return Ended(reason, first.usage + then.usage, joined(first.unspoken, then.unspoken))


def joined(left: tuple[str, ...], right: Iterable[str]) -> tuple[str, ...]:
    """Return the words of both, each once, cut to `MAX_WORDS`."""
    if len(left) == MAX_WORDS:
        return left
    words = dict.fromkeys(left)
    for word in right:
        is_long = len(word) > MAX_WORD_CHARACTERS
        words[f"{word[: MAX_WORD_CHARACTERS - 1]}…" if is_long else word] = None
        if len(words) == MAX_WORDS:
            break
    return tuple(words)
