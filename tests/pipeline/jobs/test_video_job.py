"""Videos in the background: begun anew after a stop, kept for a time, patient while others come."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.concurrency import Workers
from antiphon.config import ModelSettings
from antiphon.config.media import VideoSettings
from antiphon.contracts.picture_types import VideoRequest
from antiphon.errors import OverloadedError
from antiphon.families.toy.denoiser import ToyDenoiser
from antiphon.media.video_codec import encoded_video
from antiphon.pipeline.jobs import video_job
from antiphon.pipeline.jobs.runner import JobRunner
from antiphon.pipeline.jobs.video_job import VideoJobWork
from antiphon.pipeline.pictures.service import VideoModel
from antiphon.pipeline.pictures.videos import Videos
from antiphon.storage.blobs import BlobStore
from antiphon.storage.job import Job, JobKind, JobState
from antiphon.storage.job_ledger import JobLedger
from tests.loops import until

REQUEST = VideoRequest("a cat", 3, width=32, height=24, num_frames=5, model="toy")


class Studio:
    """A model and a data folder in which one runner after another works."""

    def __init__(self, videos: Videos, folder: Path) -> None:
        self.videos = videos
        self.folder = folder
        self.ledger = JobLedger(folder, kind=JobKind.VIDEO)
        self.media = BlobStore(folder / "media")
        self.encoders = Workers("encoder", 1)

    @asynccontextmanager
    async def runner(self, retention_s: float = 0.0) -> AsyncGenerator[JobRunner, None]:
        runner = JobRunner(
            self.ledger, self.media, self.folder / "video_jobs", self.work, retention_s=retention_s
        )
        runner.start()
        try:
            yield runner
        finally:
            await runner.close()

    def work(self, job: Job | None = None) -> VideoJobWork:
        async def no_image() -> None:
            return None

        return VideoJobWork(
            videos=self.videos,
            request=self.videos.completed(REQUEST),
            load_image=no_image,
            input_bytes=0,
            encoders=self.encoders,
        )

    async def until(self, job: Job, *states: JobState) -> Job:
        while (job := self.ledger.get(job.id)).state not in states:
            await asyncio.sleep(0.005)
        return job

    async def expected(self) -> bytes:
        video, _ = await self.videos.collect(REQUEST)
        return encoded_video(video)


@asynccontextmanager
async def in_studio(folder: Path) -> AsyncGenerator[Studio, None]:
    model = await VideoModel.load(ModelSettings(source="toy"), "video")
    videos = Videos({model.name: model}, VideoSettings())
    studio = Studio(videos, folder)
    try:
        yield studio
        assert model.status.num_open == 0
    finally:
        studio.encoders.close()
        videos.close()
        await model.close()


async def test_what_is_given_back_is_begun_anew_and_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = threading.Semaphore(0)
    step = ToyDenoiser.step

    def gated(denoiser: ToyDenoiser, states: Any) -> None:
        turns.acquire(timeout=30)
        step(denoiser, states)

    async with in_studio(tmp_path) as studio:
        expected = await studio.expected()
        with monkeypatch.context() as patch:
            patch.setattr(ToyDenoiser, "step", gated)
            async with studio.runner() as runner:
                job = await runner.add("{}", studio.work())
                assert job.num_bytes >= len(expected)
                turns.release(3)
                await until(lambda: studio.ledger.get(job.id).progress.fraction >= 0.3)
                turns.release(100)
        given_back = studio.ledger.get(job.id)
        if given_back.state is not JobState.COMPLETED:
            assert given_back.state is JobState.QUEUED
            assert given_back.progress.fraction >= 0.3
            assert not (tmp_path / "media").exists()
        async with studio.runner():
            job = await studio.until(job, JobState.COMPLETED)
        assert job.result is not None
        file, thumbnail, sheet = job.result.files
        assert studio.media.get(file.key) == expected
        assert (file.duration_s, job.num_bytes) == (
            5 / 24,
            file.num_bytes + thumbnail.num_bytes + sheet.num_bytes,
        )


async def test_a_job_waits_while_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(video_job, "_RETRY_S", 0.01)
    num_refused = 0
    async with in_studio(tmp_path) as studio:
        stream = studio.videos.stream

        def refusing(request: VideoRequest) -> Any:
            nonlocal num_refused
            assert not request.is_live  # others go first
            if num_refused < 5:
                num_refused += 1
                raise OverloadedError("Too much.", retry_after_s=0.01)
            return stream(request)

        monkeypatch.setattr(studio.videos, "stream", refusing)
        async with studio.runner() as runner:
            await studio.until(await runner.add("{}", studio.work()), JobState.COMPLETED)
        assert num_refused == 5


async def test_what_is_old_is_deleted(tmp_path: Path) -> None:
    async with in_studio(tmp_path) as studio:
        async with studio.runner(retention_s=3600) as runner:
            job = await studio.until(await runner.add("{}", studio.work()), JobState.COMPLETED)
        assert list(tmp_path.glob("media/jobs/*/video.mp4"))
        async with studio.runner(retention_s=0.001):
            await until(lambda: not studio.ledger.page(5, None))
        assert job.result is not None
        assert not list(tmp_path.glob("media/jobs/*"))
