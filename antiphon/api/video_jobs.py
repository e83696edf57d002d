"""/v1/videos/{id}: videos that are made in the background, as OpenAI's SDKs ask for them."""

from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from antiphon.api.bodies import JsonRoute
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.videos import (
    VideoDeleted,
    VideoJobBody,
    VideoList,
    VideoView,
    video_media,
)
from antiphon.api.speech_jobs import job_limits, kept_body, result_response
from antiphon.api.state import Asking, ServerState
from antiphon.contracts.picture_types import VideoRequest
from antiphon.contracts.types import random_hex
from antiphon.media.image_codec import Pixels
from antiphon.pipeline.jobs.runner import JobRunner, job_media
from antiphon.pipeline.jobs.video_job import VideoJobWork
from antiphon.pipeline.pictures.videos import INPUT_REFERENCE
from antiphon.storage.errors import UnknownJobError, VideoFailedError, VideoNotReadyError
from antiphon.storage.job import Job, JobKind, JobState
from antiphon.storage.job_ledger import JobLedger

PATH = "/v1/videos"

router = APIRouter(
    tags=["videos"],
    route_class=JsonRoute,
    responses={status: {"model": ErrorBody} for status in (400, 401, 404)},
)


async def start_video_jobs(server: ServerState, stack: AsyncExitStack) -> JobRunner:
    """Begin to work on the videos of the data folder; ``stack`` undoes it; raises SettingsError.

    A server that makes no videos does not work on them, but what has been made can be fetched.
    """
    settings, folder = server.settings, server.settings.data.folder
    ledger = JobLedger(folder, job_limits(settings), JobKind.VIDEO)
    runner = JobRunner(
        ledger,
        job_media(settings),
        folder / "video_jobs",
        lambda job: _work(server, kept_body(VideoJobBody, job), job.id, ledger.input(job.id)),
        server.guards.metrics,
        models=server.videos.models,
        retention_s=settings.media.retention_s,
    )
    stack.push_async_callback(runner.close)
    if server.videos.models:
        runner.start()
    return runner


def video_runner(connection: HTTPConnection) -> JobRunner:
    """Return the runner that `start_video_jobs` has started."""
    runner = connection.app.state.video_jobs
    assert isinstance(runner, JobRunner)
    return runner


VideoJobs = Annotated[JobRunner, Depends(video_runner)]


async def create_job(
    request: VideoRequest,
    seconds: str,
    image: bytes | None,
    server: ServerState,
    jobs: JobRunner,
    owner: str | None,
) -> Job:
    """Put a completed request in the queue; raises InvalidRequestError or StorageError.

    Args:
        seconds: Duration of the video as reported to the client.
        image: the file of its first frame.
    """
    assert request.seed is not None, "the request is complete"
    body = VideoJobBody(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        model=server.videos.model(request.model).name,
        width=request.width or 0,
        height=request.height or 0,
        num_frames=request.num_frames or 0,
        fps=request.fps,
        seed=request.seed,
        seconds=seconds,
        parameters=request.parameters,
        options=dict(request.options),
    )
    work = _work(server, body, "new", image)
    return await jobs.add(body.model_dump_json(), work, owner, image)


@router.get(PATH)
async def list_videos(
    server_jobs: VideoJobs,
    caller: Asking,
    connection: Request,
    limit: Annotated[int, Query(ge=0, le=100)] = 20,
    after: str | None = None,
    order: Literal["asc", "desc"] = "desc",
) -> VideoList:
    """List jobs, the newest first; ``after`` is the last id of the page before."""
    page = partial(server_jobs.ledger.page, oldest_first=order == "asc")
    found = await server_jobs.workers.run(page, limit + 1, after, caller)
    views = [_view(job, connection) for job in found[:limit]]
    return VideoList(
        data=views,
        first_id=views[0].id if views else None,
        last_id=views[-1].id if views else None,
        has_more=len(found) > limit,
    )


@router.get(PATH + "/{id}")
async def retrieve_video(
    id: str, jobs: VideoJobs, caller: Asking, connection: Request
) -> VideoView:
    """Return a job's progress."""
    return _view(await jobs.workers.run(jobs.ledger.get, id, caller), connection)


@router.delete(PATH + "/{id}")
async def delete_video(id: str, jobs: VideoJobs, caller: Asking) -> VideoDeleted:
    """Forget a job, wherever it is, and all that it has made."""
    await jobs.delete(id, caller)
    return VideoDeleted(id=id)


@router.get(PATH + "/{id}/content", response_class=Response)
async def download_video(
    id: str, request: Request, jobs: VideoJobs, caller: Asking, variant: str = "video"
) -> Response:
    """Download a video, or the part of it that ``Range`` asks for.

    ``variant``: ``video``, ``thumbnail`` (its first frame, WebP) or ``spritesheet`` (up to 16
    frames, JPEG).
    """
    index = video_media(variant)
    job = await jobs.workers.run(jobs.ledger.get, id, caller)
    if job.state is JobState.FAILED:
        raise VideoFailedError(id, job.fault.message if job.fault else "")
    if job.result is None:
        raise VideoNotReadyError(id)
    if index >= len(job.result.files):
        raise UnknownJobError(f"{id}/content?variant={variant}", jobs.ledger.kind.noun)
    return result_response(jobs, job, index, request)


def _view(job: Job, connection: Request) -> VideoView:
    server: ServerState = connection.app.state.server
    return VideoView.of(job, server.settings.media.retention_s)


def _work(server: ServerState, body: VideoJobBody, id: str, image: bytes | None) -> VideoJobWork:
    given = {name: value for name, value in body if name != "seconds"}
    id = f"{id}/{random_hex(8)}"  # another server may still be about to give it up
    request = VideoRequest(**given, is_live=False, id=id)
    return VideoJobWork(
        videos=server.videos,
        request=request,
        load_image=partial(first_frame, server, image),
        input_bytes=len(image or b""),
        encoders=server.encoders,
    )


async def first_frame(server: ServerState, image: str | bytes | None) -> Pixels | None:
    """Return the pixels of a first frame, of a file or an address; raises InvalidRequestError."""
    if image is None:
        return None
    settings = server.settings.videos
    return await server.image_files.load(
        image,
        INPUT_REFERENCE,
        max_bytes=settings.max_input_bytes,
        max_pixels=settings.max_input_pixels,
    )
