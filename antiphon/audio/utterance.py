"""A stream of speech, collected into one piece of audio that can be saved."""

from contextlib import aclosing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from antiphon.audio.encode import whole_file
from antiphon.contracts.types import AudioChunk, Ended, FinishReason, Samples, SpeechStream, Usage
from antiphon.errors import InvalidRequestError
from antiphon.formats import AudioFormat


@dataclass(frozen=True, slots=True)
class Audio:
    """A whole utterance: the stream, collected.

    Attributes:
        samples: PCM in [-1, 1], shape ``[num_samples]`` (mono) or ``[num_samples, channels]``.
        sample_rate_hz: Sample rate of ``samples``.
        finish_reason: ``"stop"``, or ``"length"`` if a limit cut it.
        usage: text units read, frames made.
        unspoken: Words left out of the text; the first of them if they are many.
    """

    samples: Samples
    sample_rate_hz: int
    finish_reason: FinishReason
    usage: Usage
    unspoken: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate_hz

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file; its suffix (.wav, .mp3, .opus, .aac, .flac, .pcm) names the format.

        Raises:
            InvalidRequestError: the suffix is none of these.
        """
        path = Path(path)
        suffix = path.suffix.removeprefix(".").lower()
        if suffix not in list(AudioFormat):
            raise InvalidRequestError(
                f"Unknown audio format '{suffix}'. Available: {', '.join(AudioFormat)}.",
                param="response_format",
            )
        path.write_bytes(whole_file(AudioFormat(suffix), self.sample_rate_hz, self.samples))


async def collect(events: SpeechStream) -> Audio:
    chunks: list[AudioChunk] = []
    ended: Ended | None = None
    async with aclosing(events):
        async for event in events:
            if isinstance(event, AudioChunk):
                chunks.append(event)
            else:
                ended = event
    assert ended is not None, "a stream ends with one Ended"
    assert chunks, "a stream has at least one chunk"
    samples = np.concatenate([chunk.samples for chunk in chunks])
    rate_hz = chunks[0].sample_rate_hz
    return Audio(samples, rate_hz, ended.reason, ended.usage, ended.unspoken)
