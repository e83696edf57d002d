"""Joins the segments of one section and applies speed, rate, loudness and volume to the result."""

from dataclasses import replace

import numpy as np

from antiphon.audio.chain import Chain
from antiphon.audio.joining import Joiner
from antiphon.concurrency import Workers
from antiphon.contracts.family import VoiceCapabilities
from antiphon.contracts.types import AudioChunk, Samples, SpeechRequest, WordTime
from antiphon.pipeline.speech.text import Boundary

PAUSE_S = {
    Boundary.NONE: None,
    Boundary.WORD: 0.0,
    Boundary.SENTENCE: 0.25,
    Boundary.PARAGRAPH: 0.6,
}
"""Least silence at a boundary; the quiet end of the segment before counts."""
LEAD_S = 0.05
"""Silence before a sentence, which is a part of the pause."""


class SegmentMixer:
    """The audio of one section.

    Attributes:
        sample_rate_hz: Sample rate of the result.
        num_samples: Samples of the result so far.
    """

    def __init__(
        self,
        capabilities: VoiceCapabilities,
        request: SpeechRequest,
        workers: Workers,
        start_s: float,
        gain_db: float | None = None,
    ) -> None:
        """Begin ``start_s`` after the beginning of the stream, with the model's segments.

        Args:
            capabilities: the model's own.
            request: speed, sample rate, volume and pauses.
            workers: threads for transforms.
            start_s: time of the first sample.
            gain_db: gain in dB, see `Chain.build`.
        """
        native_hz, channels = capabilities.sample_rate_hz, capabilities.channels
        self.sample_rate_hz = request.sample_rate_hz or native_hz
        self.num_samples = 0
        self._joiner = Joiner(native_hz, channels)
        self._chain = Chain.build(native_hz, self.sample_rate_hz, request.speed, channels, gain_db)
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
        """Add audio of the segment."""
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
        """Return the time of a word of the segment in the stream."""
        start_s, end_s = (
            self._segment_start_s + each_s / self._speed for each_s in (time.start_s, time.end_s)
        )
        return replace(time, start_s=start_s, end_s=end_s)
