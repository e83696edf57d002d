"""Parts of a job and the disk space it may take, estimated before it starts."""

from collections.abc import Callable
from dataclasses import dataclass

from antiphon.audio.encode import AudioFormat
from antiphon.contracts.types import SpeechStream
from antiphon.pipeline.jobs.speech_files import CHAPTER_PAUSE_S
from antiphon.pipeline.jobs.speech_work import speak_job
from antiphon.pipeline.jobs.work import JobAccount, JobPlace
from antiphon.pipeline.speech.pauses import Pause, split_pauses
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints
from antiphon.storage.job import JobResult

# Slow speech takes about so long for a byte of UTF-8, whatever the script: letters of scripts with
# few of them have one byte or two, syllables of Chinese and the like have three.
_SPEECH_S_PER_BYTE = 0.085
_KEPT_SAMPLE_BYTES = 4


@dataclass(frozen=True, slots=True)
class ChapterPart:
    """What is spoken by one voice at one rate.

    Attributes:
        text: Text of the part.
        open: begins to speak it.
    """

    text: str
    open: Callable[[SegmentCheckpoints], SpeechStream]


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of a job; its ``title`` is for people."""

    title: str | None
    parts: tuple[ChapterPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job's body, read; a `JobWork`.

    Attributes:
        chapters: its parts.
        format: Format of its files.
        sample_rate_hz: Sample rate of its files.
        is_split: whether each chapter is a file.
        speed: Slowest speaking rate.
        model_rate_hz: Sample rate of stored segments.
        channels: Channels of the audio.
    """

    chapters: tuple[Chapter, ...]
    format: AudioFormat
    sample_rate_hz: int
    is_split: bool
    speed: float = 1.0
    model_rate_hz: int = 24_000
    channels: int = 1

    def predicted_bytes(self) -> int:
        """Return how much of the disk the job may take at most, its segments included.

        Raises:
            InvalidRequestError: a pause in a text is wrong.
        """
        pause_s = CHAPTER_PAUSE_S * len(self.chapters)
        num_text_bytes = 0
        for text in (part.text for chapter in self.chapters for part in chapter.parts):
            for piece in split_pauses(text):
                if isinstance(piece, Pause):
                    pause_s += piece.duration_s
                else:
                    num_text_bytes += len(piece.encode("utf-8", "replace"))
        speech_s = num_text_bytes * _SPEECH_S_PER_BYTE
        file_bytes_per_s = self.format.max_bytes_per_s(self.sample_rate_hz, self.channels)
        kept_bytes = speech_s * self.model_rate_hz * self.channels * _KEPT_SAMPLE_BYTES
        return int(kept_bytes + (speech_s / self.speed + pause_s) * file_bytes_per_s)

    async def run(self, place: JobPlace, account: JobAccount) -> JobResult:
        """Speak it and keep what comes of it; raises AntiphonError if that cannot be."""
        return await speak_job(self, place, account)
