"""The audio of one utterance: its room, its statistics, and its segments joined into one stream."""

from abc import ABC, abstractmethod
from dataclasses import replace

from antiphon.concurrency import Workers
from antiphon.contracts.types import (
    AudioChunk,
    Ended,
    FinishReason,
    SpeechRequest,
    SpeechStream,
    Usage,
    Voice,
)
from antiphon.errors import UnspeakableTextError
from antiphon.pipeline.reservation import Reservation
from antiphon.pipeline.speech.model import VoiceModel
from antiphon.pipeline.speech.segment_mixer import SegmentMixer
from antiphon.pipeline.speech.text import Boundary
from antiphon.pipeline.speech.unspoken import joined
from antiphon.telemetry.metrics import Metrics
from antiphon.telemetry.stream_stats import StreamStats


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
        self._usage = Usage()
        self._reason: FinishReason = "stop"
        self._unspoken: tuple[str, ...] = ()
        self._has_spoken = False
        self._stats: StreamStats | None = None
        self._place: Reservation | None = None

    @property
    def sample_rate_hz(self) -> int:
        """Of the audio."""
        return self._request.sample_rate_hz or self._model.capabilities.sample_rate_hz

    @property
    def _is_admitted(self) -> bool:
        return self._place is not None and self._place.is_taken

    async def reserve(self) -> None:
        """Have the audio admitted before there is anything to speak; see `Reservation.take`."""
        request = self._request
        self._place = Reservation(
            self._model, request.id, self._metrics, is_live=request.is_live, speed=request.speed
        )
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
                        yield replace(chunk, unspoken=self._unspoken) if is_first else chunk
                        is_first = False
                        stats.ask()
                if self._unspoken and not self._has_spoken:
                    raise UnspeakableTextError(voice.id, self._unspoken)
                ended = Ended(self._reason, self._usage, self._unspoken)
                stats.end(ended)
                yield ended
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
                self._model.capabilities,
                self._request,
                self._workers,
                self._start_s,
                _gain_db(self._request, voice),
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
        self._usage += ended.usage
        self._reason = ended.reason if self._reason == "stop" else self._reason
        self._unspoken = joined(self._unspoken, ended.unspoken)
        chunks = await mixer.end(is_last=is_last)
        if is_last:
            self._start_s += mixer.num_samples / mixer.sample_rate_hz
            self._mixer = None
        return chunks


def _gain_db(request: SpeechRequest, voice: Voice) -> float | None:
    """Return the change of loudness that a request wants of a voice, or ``None``."""
    if voice.loudness_lufs is None or not isinstance(request.loudness_lufs, float | int):
        return None
    return request.loudness_lufs - voice.loudness_lufs
