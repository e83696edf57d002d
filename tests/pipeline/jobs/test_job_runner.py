"""Jobs: whatever interrupts one, its result is that of one that nobody has interrupted."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from antiphon.audio.utterance import collect
from antiphon.audio.wav import pcm16
from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import EngineError
from antiphon.formats import AudioFormat
from antiphon.pipeline.jobs.runner import JobRunner
from antiphon.pipeline.jobs.speech_files import CHAPTER_PAUSE_S
from antiphon.pipeline.jobs.speech_job import Chapter, ChapterPart, JobPlan
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints
from antiphon.pipeline.speech.service import Speech
from antiphon.stages.base import StageRequest, StageStream
from antiphon.storage.blobs import BlobStore
from antiphon.storage.errors import StorageFullError
from antiphon.storage.job import Job, JobLimits, JobState
from antiphon.storage.job_ledger import JobLedger

BLANK_LINES = "\n" * 60  # so many that the text does not fit one segment
TEXTS = (
    BLANK_LINES.join(f"Paragraph {n} is here." for n in range(4)),
    "The end. [pause:500ms] Bye.",
)
NUM_SEGMENTS = 6
REQUESTS = tuple(SpeechRequest(text, seed=seed, speed=1.3) for seed, text in enumerate(TEXTS))


class Shop:
    """A model and a data folder in which one runner after another works."""

    def __init__(self, speech: Speech, folder: Path, *, is_split: bool = False) -> None:
        self.speech = speech
        self.folder = folder
        self.is_split = is_split
        self.requests = REQUESTS
        self.ledger = JobLedger(folder, JobLimits(max_jobs=10))
        self.opened: list[str] = []
        self.before_open: Callable[[StageRequest], None] = lambda request: None
        (self.model,) = speech.models.values()
        self._open = self.model.open
        self.model.open = self._noted  # type: ignore[method-assign, assignment]

    @asynccontextmanager
    async def runner(self, *models: str) -> AsyncGenerator[JobRunner, None]:
        media, folder = BlobStore(self.folder / "media"), self.folder / "jobs"
        runner = JobRunner(self.ledger, media, folder, self.plan, models=models or None)
        runner.start()
        try:
            yield runner
        finally:
            await runner.close()
            assert self.model.fabric.num_open == 0

    async def result(self, job: Job) -> list[bytes]:
        """Return a job's files once it is done."""
        job = await self.until(job, JobState.COMPLETED)
        assert job.result is not None
        assert job.progress.fraction == 1.0
        media = BlobStore(self.folder / "media")
        files = [b"".join(media.read(each.key, 0, each.num_bytes)) for each in job.result.files]
        assert [len(file) for file in files] == [each.num_bytes for each in job.result.files]
        return files

    async def until(self, job: Job, *states: JobState) -> Job:
        while (job := self.ledger.get(job.id)).state not in states:
            await asyncio.sleep(0.005)
        return job

    def plan(self, job: Job | None = None) -> JobPlan:
        chapters = [
            Chapter(request.id, (ChapterPart(request.input, partial(self.speech.stream, request)),))
            for request in self.requests
        ]
        return JobPlan(
            model_name=self.model.name,
            chapters=tuple(chapters),
            format=AudioFormat.WAV,
            sample_rate_hz=24_000,
            is_split=self.is_split,
        )

    def _noted(self, request: StageRequest) -> StageStream:
        self.before_open(request)
        self.opened.append(request.id)
        return self._open(request)


@asynccontextmanager
async def in_shop(folder: Path, *, is_split: bool = False) -> AsyncGenerator[Shop, None]:
    model = await SpeechModel.load(ModelSettings(source="toy", max_slots=4))
    speech = Speech({model.name: model}, SpeechSettings(max_input_characters=10))
    try:
        yield Shop(speech, folder, is_split=is_split)
    finally:
        speech.close()
        await model.close()


async def expected_chapters() -> list[bytes]:
    model = await SpeechModel.load(ModelSettings(source="toy", max_slots=4))
    speech = Speech({model.name: model}, SpeechSettings())
    try:
        return [pcm16((await collect(speech.stream(each))).samples) for each in REQUESTS]
    finally:
        speech.close()
        await model.close()


async def expected_file() -> bytes:
    first, second = await expected_chapters()
    return first + pcm16(np.zeros(round(CHAPTER_PAUSE_S * 24_000), np.float32)) + second


async def test_a_job_is_its_chapters_with_a_pause_between(tmp_path: Path) -> None:
    expected = await expected_file()
    async with in_shop(tmp_path) as shop:
        async with shop.runner() as runner:
            job = await runner.add("{}", shop.plan())
            (file,) = await shop.result(job)
            assert file[44:] == expected
            assert int.from_bytes(file[40:44], "little") == len(expected), "the header's length"
        job = shop.ledger.get(job.id)
        assert job.result is not None
        first, second = job.result.chapters
        assert second.start_s == pytest.approx(first.duration_s + CHAPTER_PAUSE_S)
        assert job.progress.num_segments == NUM_SEGMENTS
        assert not (tmp_path / "jobs" / job.id).exists(), "segments are kept until the end only"


async def test_chapters_may_be_files(tmp_path: Path) -> None:
    expected = await expected_chapters()
    async with in_shop(tmp_path, is_split=True) as shop:
        async with shop.runner() as runner:
            files = await shop.result(await runner.add("{}", shop.plan()))
        assert [file[44:] for file in files] == expected


async def test_a_chapter_of_a_pause_is_silence(tmp_path: Path) -> None:
    silent = SpeechRequest("[pause:1s]", seed=1)
    expected = await expected_chapters()
    async with in_shop(tmp_path, is_split=True) as shop, shop.runner() as runner:
        shop.requests = (REQUESTS[0], silent, REQUESTS[1])
        job = await runner.add("{}", shop.plan())
        files = await shop.result(job)
        assert [file[44:] for file in files] == [expected[0], bytes(2 * 24_000), expected[1]]
        result = shop.ledger.get(job.id).result
        assert result is not None
        assert result.unspoken == ()
        assert [chapter.duration_s for chapter in result.chapters][1] == 1.0
        shop.requests = (silent, silent)
        job = await shop.until(await runner.add("{}", shop.plan()), JobState.FAILED)
        assert job.fault is not None
        assert job.fault.code == "unspeakable_text"


@pytest.mark.parametrize("num_before", range(NUM_SEGMENTS))
async def test_a_restart_goes_on_at_the_segment_where_it_was(
    tmp_path: Path, num_before: int
) -> None:
    expected = await expected_file()
    async with in_shop(tmp_path) as shop:
        reached = asyncio.Event()

        async with shop.runner() as runner:
            shop.before_open = lambda request: (
                reached.set() if len(shop.opened) == num_before else None
            )
            job = await runner.add("{}", shop.plan())
            await reached.wait()
        assert shop.ledger.get(job.id).state is JobState.QUEUED, "given back at once"
        num_kept = len(list((tmp_path / "jobs" / job.id).glob("*/*.segment")))
        shop.opened.clear()
        shop.before_open = lambda request: None
        async with shop.runner():
            (file,) = await shop.result(job)
        assert file[44:] == expected
        assert len(shop.opened) == NUM_SEGMENTS - num_kept


async def test_a_server_without_its_model_leaves_a_job_to_others(tmp_path: Path) -> None:
    async with in_shop(tmp_path) as shop:
        theirs = shop.ledger.add("{}", model="another")
        earlier = shop.ledger.add("{}")  # of a version that kept no models
        async with shop.runner(shop.model.name) as runner:
            ours = await runner.add("{}", shop.plan())
            await shop.until(earlier, JobState.COMPLETED)
            await shop.until(ours, JobState.COMPLETED)
            assert shop.ledger.get(theirs.id).state is JobState.QUEUED
        async with shop.runner("another"):
            await shop.until(theirs, JobState.COMPLETED)


async def test_a_paused_job_waits_and_is_the_same_afterwards(tmp_path: Path) -> None:
    expected = await expected_file()
    async with in_shop(tmp_path) as shop:
        reached = asyncio.Event()

        def at_the_third(request: StageRequest) -> None:
            if len(shop.opened) == 2:
                reached.set()

        async with shop.runner() as runner:
            shop.before_open = at_the_third
            job = await runner.add("{}", shop.plan())
            await reached.wait()
            assert (await runner.change(job.id, "pause")).state is JobState.PAUSED
            assert shop.model.fabric.num_open == 0
            num_opened = len(shop.opened)
            await asyncio.sleep(0.05)
            assert len(shop.opened) == num_opened
            await runner.change(job.id, "resume")
            (file,) = await shop.result(job)
        assert file[44:] == expected


@pytest.mark.parametrize("action", ["cancel", "delete"])
async def test_a_job_that_is_given_up_leaves_nothing(tmp_path: Path, action: str) -> None:
    async with in_shop(tmp_path) as shop:
        reached = asyncio.Event()
        shop.before_open = lambda request: reached.set() if len(shop.opened) == 2 else None
        async with shop.runner() as runner:
            job = await runner.add("{}", shop.plan())
            await reached.wait()
            if action == "cancel":
                await runner.change(job.id, "cancel")
                assert shop.ledger.get(job.id).state is JobState.CANCELLED
            else:
                await runner.delete(job.id)
            assert shop.model.fabric.num_open == 0
            assert not list((tmp_path / "jobs").iterdir())

            other = await runner.add("{}", shop.plan())
            await shop.result(other)
            assert list((tmp_path / "media" / "jobs").iterdir())
            await runner.delete(other.id)
            assert not list((tmp_path / "media" / "jobs").iterdir())


@pytest.mark.parametrize(
    ("error", "code"), [(EngineError("It broke."), "engine_error"), (KeyError(), "internal_error")]
)
async def test_a_job_that_fails_says_why_and_can_go_on(
    tmp_path: Path, error: Exception, code: str
) -> None:
    expected = await expected_file()
    async with in_shop(tmp_path) as shop:

        def fail(request: StageRequest) -> None:
            if len(shop.opened) == 3:
                raise error

        async with shop.runner() as runner:
            shop.before_open = fail
            job = await shop.until(await runner.add("{}", shop.plan()), JobState.FAILED)
            assert job.fault is not None
            assert job.fault.code == code
            shop.before_open = lambda request: None
            await runner.change(job.id, "resume")
            (file,) = await shop.result(job)
        assert file[44:] == expected


async def test_a_full_disk_fails_the_job_and_it_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await expected_file()
    async with in_shop(tmp_path) as shop:

        def full(*_: object) -> None:
            raise StorageFullError

        async with shop.runner() as runner:
            with monkeypatch.context() as patch:
                patch.setattr(SegmentCheckpoints, "_save", full)
                job = await shop.until(await runner.add("{}", shop.plan()), JobState.FAILED)
            assert job.fault is not None
            assert job.fault.code == "insufficient_storage"
            await runner.change(job.id, "resume")
            (file,) = await shop.result(job)
        assert file[44:] == expected
