"""A speech job: its parts, the disk space it may take, and how it is spoken and kept."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from antiphon.audio.encode import max_bytes_per_s
from antiphon.concurrency import Workers
from antiphon.contracts.types import AudioChunk, Ended, SpeechStream
from antiphon.errors import UnspeakableTextError
from antiphon.formats import AudioFormat
from antiphon.pipeline.jobs.speech_files import CHAPTER_PAUSE_S, JobFiles
from antiphon.pipeline.jobs.work import JobAccount, JobPlace
from antiphon.pipeline.speech.pauses import Pause, pauses_s, split_pauses
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints, SegmentDone
from antiphon.pipeline.speech.synthesis import both_ended
from antiphon.storage.job import JobProgress, JobResult

# Slow speech takes about so long for a byte of UTF-8, whatever the script: letters of scripts with
# few of them have one byte or two, syllables of Chinese and the like have three.
_SPEECH_S_PER_BYTE = 0.085
_KEPT_SAMPLE_BYTES = 4


@dataclass(frozen=True, slots=True)
class ChapterPart:
    """What is spoken by one voice at one rate."""

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
        is_split: whether each chapter is a file.
        speed: Slowest speaking rate.
        model_rate_hz: Sample rate of stored segments.
    """

    model_name: str
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
        file_bytes_per_s = max_bytes_per_s(self.format, self.sample_rate_hz, self.channels)
        kept_bytes = speech_s * self.model_rate_hz * self.channels * _KEPT_SAMPLE_BYTES
        return int(kept_bytes + (speech_s / self.speed + pause_s) * file_bytes_per_s)

    async def run(self, place: JobPlace, account: JobAccount) -> JobResult:
        """Speak the job and keep its files; finished segments are reused; raises AntiphonError."""
        workers, budget = place.workers, account.budget
        spoken = _Spoken(account)
        files = JobFiles(
            place.folder,
            self.format,
            self.sample_rate_hz,
            self.channels,
            is_split=self.is_split,
            spend=budget.spend,
        )
        num_characters = sum(len(part.text) for chapter in self.chapters for part in chapter.parts)
        try:
            for index, chapter in enumerate(self.chapters):
                await workers.run(files.begin_chapter)
                for number, part in enumerate(chapter.parts):
                    spoken.part_share = len(part.text) / num_characters
                    folder = place.folder / (f"{index}-{number}" if number else str(index))
                    checkpoints = SegmentCheckpoints(
                        folder, workers, spoken.segment_done, spend=budget.spend
                    )
                    ended = await _spoken_into(files, part, checkpoints, workers)
                    spoken.total = both_ended(spoken.total, ended)
                    spoken.share += spoken.part_share
                await workers.run(files.end_chapter, chapter.title)
            if not spoken.num_segments:
                raise UnspeakableTextError(spoken.total.unspoken)
            kept = await workers.run(files.hand_over, place.media, place.media_folder)
        finally:
            files.close()
        return JobResult(
            files=kept,
            chapters=tuple(files.chapters),
            finish_reason=spoken.total.reason,
            input_tokens=spoken.total.usage.input_tokens,
            output_tokens=spoken.total.usage.output_tokens,
            unspoken=spoken.total.unspoken,
        )


async def _spoken_into(
    files: JobFiles, part: ChapterPart, checkpoints: SegmentCheckpoints, workers: Workers
) -> Ended:
    """Write a part; one of which its voice can speak nothing is left out, but for its pauses."""
    ended, has_audio = Ended("stop"), False
    try:
        async with aclosing(part.open(checkpoints)) as events:
            async for event in events:
                if isinstance(event, AudioChunk):
                    await workers.run(files.write, event.samples)
                    has_audio = True
                else:
                    ended = event
    except UnspeakableTextError as error:
        ended = Ended("stop", unspoken=error.words)
        if not has_audio:
            await workers.run(files.write_silence, pauses_s(part.text))
    return ended


@dataclass(slots=True)
class _Spoken:
    """What has come of a job so far."""

    account: JobAccount
    total: Ended = field(default_factory=lambda: Ended("stop"))
    share: float = 0.0  # of what comes before this part
    part_share: float = 1.0
    num_segments: int = 0
    audio_s: float = 0.0

    def segment_done(self, done: SegmentDone) -> None:
        self.num_segments += 1
        self.audio_s += done.audio_s
        self.account.num_damaged += done.was_damaged
        fraction = min(1.0, self.share + self.part_share * done.fraction)
        self.account.proceed(
            JobProgress(fraction=fraction, num_segments=self.num_segments, audio_s=self.audio_s)
        )
