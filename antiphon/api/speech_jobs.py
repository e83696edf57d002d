"""/v1/audio/speech/jobs: texts as long as books, spoken in the background."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from antiphon.api.deps import Server
from antiphon.api.options import FamilyOptions, ignored_headers, open_stream
from antiphon.api.ranges import StoredFile, file_response
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.speech_jobs import (
    SpeechJobBody,
    SpeechJobDeleted,
    SpeechJobList,
    SpeechJobView,
)
from antiphon.api.state import ServerState
from antiphon.api.streaming import StreamedResponse
from antiphon.errors import InvalidRequestError, UnknownJobError
from antiphon.media.job import Job
from antiphon.media.ledger import JobLedger
from antiphon.media.store import MediaStore
from antiphon.pipeline.jobs import Chapter, JobPlan, JobRunner
from antiphon.pipeline.text import segment_seed
from antiphon.types import new_seed

PATH = "/v1/audio/speech/jobs"
MAX_SEED = 2**63 - 1

_ERRORS = (400, 401, 404, 409)
_POLL_S = 1.0
_KEEP_ALIVE_S = 15.0

router = APIRouter(tags=["jobs"], responses={status: {"model": ErrorBody} for status in _ERRORS})


async def start_jobs(server: ServerState, stack: AsyncExitStack) -> JobRunner:
    """Begin to work on the jobs of the data folder; ``stack`` undoes it.

    Raises:
        SettingsError: results cannot be kept where the settings say.
    """
    settings, folder = server.settings, server.settings.data.folder
    runner = JobRunner(
        JobLedger(folder, settings.jobs.max_jobs),
        MediaStore(settings.jobs.media_url or folder / "media"),
        folder / "jobs",
        partial(_plan, server),
    )
    stack.push_async_callback(runner.close)
    runner.start()
    return runner


def _job_runner(connection: HTTPConnection) -> JobRunner:
    runner = connection.app.state.jobs
    assert isinstance(runner, JobRunner)
    return runner


Jobs = Annotated[JobRunner, Depends(_job_runner)]


@router.post(PATH, status_code=202)
async def create_job(
    body: SpeechJobBody, server: Server, jobs: Jobs, response: Response
) -> SpeechJobView:
    """Put a text in the queue; what could not be spoken is refused at once."""
    body.check_length(server.settings.jobs.max_input_characters)
    for part in body.parts:
        speech = body.speech(part)
        request = speech.to_domain("check")
        model = server.speech.model(request.model)
        options = FamilyOptions.of(speech, model.family)
        request = replace(request, options=options.values)
        server.speech.check(request, model, options.recordings)
        if request.word_timestamps:
            raise InvalidRequestError(
                "Jobs do not tell when words are spoken: leave 'word_timestamps' out.",
                param="word_timestamps",
            )
    response.headers.update(ignored_headers(options.ignored, server.settings.speech))
    await server.speech.cast(replace(request, options=options.named), model)
    job = await jobs.add(body.kept(new_seed(), options.ignored).model_dump_json(exclude_none=True))
    return SpeechJobView.of(job, PATH)


@router.get(PATH)
async def list_jobs(
    jobs: Jobs,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: str | None = None,
) -> SpeechJobList:
    """List jobs, the newest first; ``after`` is the last id of the page before."""
    found = await jobs.workers.run(jobs.ledger.page, limit + 1, after)
    views = [SpeechJobView.of(job, PATH) for job in found[:limit]]
    return SpeechJobList(data=views, has_more=len(found) > limit)


@router.get(PATH + "/{id}")
async def get_job(id: str, jobs: Jobs) -> SpeechJobView:
    """Tell how far a job is, and what it has made."""
    return SpeechJobView.of(await jobs.workers.run(jobs.ledger.get, id), PATH)


@router.post(PATH + "/{id}/{action}")
async def change_job(
    id: str, action: Literal["pause", "resume", "cancel"], jobs: Jobs
) -> SpeechJobView:
    """Pause a job, go on with it (after a failure too), or give it up."""
    return SpeechJobView.of(await jobs.change(id, action), PATH)


@router.delete(PATH + "/{id}")
async def delete_job(id: str, jobs: Jobs) -> SpeechJobDeleted:
    """Forget a job, wherever it is, and all that it has made."""
    await jobs.delete(id)
    return SpeechJobDeleted(id=id)


@router.get(PATH + "/{id}/events", response_class=Response)
async def follow_job(id: str, jobs: Jobs) -> Response:
    """Follow a job: an event for each change, until it ends."""
    await jobs.workers.run(jobs.ledger.get, id)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamedResponse(_events(id, jobs), headers, "text/event-stream")


@router.get(PATH + "/{id}/content", response_class=Response)
@router.get(PATH + "/{id}/content/{index}", response_class=Response)
async def get_content(id: str, request: Request, jobs: Jobs, index: int = 0) -> Response:
    """Download what a job has made, or the part of it that ``Range`` asks for."""
    job = await jobs.workers.run(jobs.ledger.get, id)
    if job.result is None:
        raise InvalidRequestError(
            f"The job is {job.state}: it has made nothing yet.", code="job_not_completed"
        )
    if not 0 <= index < len(job.result.files):
        raise UnknownJobError(f"{id}/content/{index}")
    made = job.result.files[index]
    file = StoredFile(
        num_bytes=made.num_bytes,
        media_type=made.media_type,
        etag=f"{id}-{index}-{job.finished_s}",
        read=partial(jobs.media.read, made.key),
    )
    return file_response(file, request, jobs.workers)


async def _events(id: str, jobs: JobRunner) -> AsyncGenerator[bytes, None]:
    """Yield a job's states as they come; changes of other servers are looked for."""
    told: SpeechJobView | None = None
    silent_s = 0.0
    while True:
        changed = jobs.changed
        try:
            job = await jobs.workers.run(jobs.ledger.get, id)
        except UnknownJobError:
            yield b'event: speech.job.deleted\ndata: {"type":"speech.job.deleted"}\n\n'
            return
        view = SpeechJobView.of(job, PATH)
        if view != told:
            yield _event("speech.job.ended" if job.state.is_final else "speech.job", view)
            told, silent_s = view, 0.0
        if job.state.is_final:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLL_S):
                await changed.wait()
            continue
        silent_s += _POLL_S
        if silent_s >= _KEEP_ALIVE_S:
            yield b": waiting\n\n"
            silent_s = 0.0


def _event(name: str, view: SpeechJobView) -> bytes:
    return f'event: {name}\ndata: {{"type":"{name}","job":{view.model_dump_json()}}}\n\n'.encode()


def _plan(server: ServerState, job: Job) -> JobPlan:
    """Read a job's body; chapters after the first have seeds of their own."""
    body = SpeechJobBody.model_validate_json(job.body)
    chapters = []
    for index, part in enumerate(body.parts):
        speech = body.speech(part)
        request = replace(speech.to_domain(f"{job.id}-{index}"), is_live=False)
        assert request.seed is not None
        request = replace(request, seed=segment_seed(request.seed, index) & MAX_SEED)
        model = server.speech.model(request.model)
        opened = partial(open_stream, speech, request, server)
        chapters.append(Chapter(part.title, len(part.input), opened))
    return JobPlan(
        chapters=tuple(chapters),
        format=speech.response_format,
        sample_rate_hz=request.sample_rate_hz or model.capabilities.sample_rate_hz,
        is_split=body.output == "chapters",
    )
