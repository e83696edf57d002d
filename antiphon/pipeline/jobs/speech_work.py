"""Speaks one job from its plan: segments that are kept, files that are handed over at the end."""

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from antiphon.contracts.types import AudioChunk, Ended, FinishReason, Usage
from antiphon.pipeline.jobs.speech_files import JobFiles
from antiphon.pipeline.jobs.work import JobAccount, JobPlace
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints, SegmentDone
from antiphon.pipeline.speech.unspoken import joined
from antiphon.storage.job import JobProgress, JobResult

if TYPE_CHECKING:  # a plan is spoken by this module
    from antiphon.pipeline.jobs.speech_plan import JobPlan


@dataclass(slots=True)
class _Spoken:
    """What has come of a job so far."""

    account: JobAccount
    usage: Usage = Usage()
    reason: FinishReason = "stop"
    unspoken: tuple[str, ...] = ()
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

    def ended(self, ended: Ended) -> None:
        self.usage += ended.usage
        self.reason = ended.reason if self.reason == "stop" else self.reason
        self.unspoken = joined(self.unspoken, ended.unspoken)


async def speak_job(plan: "JobPlan", place: JobPlace, account: JobAccount) -> JobResult:
    """Speak a job and keep what comes of it; what is there already is not spoken again.

    Raises:
        AntiphonError: it cannot be spoken, or not be kept.
    """
    workers, budget = place.workers, account.budget
    spoken = _Spoken(account)
    files = JobFiles(
        place.folder,
        plan.format,
        plan.sample_rate_hz,
        plan.channels,
        is_split=plan.is_split,
        spend=budget.spend,
    )
    num_characters = sum(len(part.text) for chapter in plan.chapters for part in chapter.parts)
    try:
        for index, chapter in enumerate(plan.chapters):
            await workers.run(files.begin_chapter)
            for number, part in enumerate(chapter.parts):
                spoken.part_share = len(part.text) / num_characters
                folder = place.folder / (f"{index}-{number}" if number else str(index))
                checkpoints = SegmentCheckpoints(
                    folder, workers, spoken.segment_done, spend=budget.spend
                )
                async with aclosing(part.open(checkpoints)) as events:
                    async for event in events:
                        if isinstance(event, AudioChunk):
                            await workers.run(files.write, event.samples)
                        else:
                            spoken.ended(event)
                spoken.share += spoken.part_share
            await workers.run(files.end_chapter, chapter.title)
        kept = await workers.run(files.hand_over, place.media, place.media_folder)
    finally:
        files.close()
    return JobResult(
        files=kept,
        chapters=tuple(files.chapters),
        finish_reason=spoken.reason,
        input_tokens=spoken.usage.input_tokens,
        output_tokens=spoken.usage.output_tokens,
        unspoken=spoken.unspoken,
    )
