"""/v1/audio/speech/jobs: texts as long as books, spoken in the background."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import ValidationError
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from antiphon.api.bodies import JsonRoute
from antiphon.api.errors import M
from antiphon.api.http_ranges import file_response
from antiphon.api.options import checked_request, ignored_headers, open_stream
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.speech_jobs import (
    SpeechJobBody,
    SpeechJobDeleted,
    SpeechJobList,
    SpeechJobView,
)
from antiphon.api.state import Asking, Server, ServerState
from antiphon.api.streaming import StreamedResponse
from antiphon.api.voice_tags import tagged_turns
from antiphon.audio.stretch import MAX_SPEED
from antiphon.config import Settings
from antiphon.contracts.types import Caller, SpeechRequest, new_seed
from antiphon.errors import InvalidRequestError, UnavailableError
from antiphon.pipeline.jobs.runner import JobRunner, job_media
from antiphon.pipeline.jobs.speakable import check_speakable
from antiphon.pipeline.jobs.speech_job import Chapter, ChapterPart, JobPlan
from antiphon.pipeline.speech.text import segment_seed
from antiphon.storage.errors import StorageError, UnknownJobError
from antiphon.storage.job import Job, JobLimits
from antiphon.storage.job_database import UNREADABLE
from antiphon.storage.job_ledger import JobLedger

PATH = "/v1/audio/speech/jobs"
MAX_SEED = 2**63 - 1

_ERRORS = (400, 401, 404, 409)
_POLL_S = 1.0
_KEEP_ALIVE_S = 15.0

router = APIRouter(
    tags=["jobs"],
    route_class=JsonRoute,
    responses={status: {"model": ErrorBody} for status in _ERRORS},
)


async def start_jobs(server: ServerState, stack: AsyncExitStack) -> JobRunner:
    """Begin to work on the jobs of the data folder; ``stack`` undoes it; raises SettingsError."""
    settings, folder = server.settings, server.settings.data.folder
    ledger = JobLedger(folder, job_limits(settings))
    runner = JobRunner(
        ledger,
        job_media(settings),
        folder / "jobs",
        partial(_plan_of, server),
        server.guards.metrics,
        models=server.speech.models,
    )
    stack.push_async_callback(runner.close)
    server.storage.add("jobs", partial(runner.workers.run, ledger.check))
    runner.start()
    return runner


def job_limits(settings: Settings) -> JobLimits:
    """Return the limits of jobs, those of all kinds together."""
    jobs = settings.jobs
    return JobLimits(
        max_jobs=jobs.max_jobs,
        max_owner_jobs=jobs.max_owner_jobs,
        max_bytes=int(jobs.max_gib * 2**30),
        max_owner_bytes=int(jobs.max_owner_gib * 2**30),
        max_crashes=jobs.max_crashes,
        min_free_bytes=settings.data.min_free_mib * 2**20,
    )


def _job_runner(connection: HTTPConnection) -> JobRunner:
    runner = connection.app.state.jobs
    assert isinstance(runner, JobRunner)
    return runner


Jobs = Annotated[JobRunner, Depends(_job_runner)]


@router.post(PATH, status_code=202, responses={507: {"model": ErrorBody}})
async def create_job(
    body: SpeechJobBody, server: Server, jobs: Jobs, caller: Asking, response: Response
) -> SpeechJobView:
    """Put a text in the queue; what could not be spoken, or kept, is refused at once."""
    body.check_length(server.settings.jobs.max_input_characters)
    own = server.seen_by(Caller(caller.owner))  # an admin's job has no further rights
    turns: list[SpeechRequest] = []
    for part in body.parts:
        speech = body.speech(part)
        request = await own.speech.routed(speech.to_domain("check"))
        request, model, options = checked_request(speech, request, server)
        turns += tagged_turns(speech, request, server)[0]
        if request.word_timestamps:
            raise InvalidRequestError(
                "Jobs give no word timestamps: leave 'word_timestamps' out.",
                param="word_timestamps",
            )
    response.headers.update(ignored_headers(options.ignored, server.settings.speech))
    for turn in {each.voice: each for each in turns}.values():
        await own.speech.resolve_voice(replace(turn, options=options.named), model)
    kept = body.kept(new_seed(), options.ignored, model.name)
    text, plan = await jobs.workers.run(_complete, kept, own)
    load = partial(options.decoded, server.recordings, model.capabilities.sample_rate_hz)
    await check_speakable(own.speech, turns, load, body.text_field)
    job = await jobs.add(text, plan, caller.owner)
    return SpeechJobView.of(job, PATH)


@router.get(PATH)
async def list_jobs(
    jobs: Jobs,
    caller: Asking,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: str | None = None,
) -> SpeechJobList:
    """List jobs, the newest first; ``after`` is the last id of the page before."""
    found = await jobs.workers.run(jobs.ledger.page, limit + 1, after, caller)
    views = [SpeechJobView.of(job, PATH) for job in found[:limit]]
    return SpeechJobList(data=views, has_more=len(found) > limit)


@router.get(PATH + "/{id}")
async def get_job(id: str, jobs: Jobs, caller: Asking) -> SpeechJobView:
    """Return a job's progress and results."""
    return SpeechJobView.of(await jobs.workers.run(jobs.ledger.get, id, caller), PATH)


@router.post(PATH + "/{id}/{action}")
async def change_job(
    id: str, action: Literal["pause", "resume", "cancel"], jobs: Jobs, caller: Asking
) -> SpeechJobView:
    """Pause a job, go on with it (after a failure, from its beginning), or give it up."""
    return SpeechJobView.of(await jobs.change(id, action, caller), PATH)


@router.delete(PATH + "/{id}")
async def delete_job(id: str, jobs: Jobs, caller: Asking) -> SpeechJobDeleted:
    """Forget a job, wherever it is, and all that it has made."""
    await jobs.delete(id, caller)
    return SpeechJobDeleted(id=id)


@router.get(PATH + "/{id}/events", response_class=Response)
async def follow_job(id: str, jobs: Jobs, caller: Asking) -> Response:
    """Follow a job: an event for each change, until it ends."""
    await jobs.workers.run(jobs.ledger.get, id, caller)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamedResponse(_events(id, jobs), headers, "text/event-stream")


@router.get(PATH + "/{id}/content", response_class=Response)
@router.get(PATH + "/{id}/content/{index}", response_class=Response)
async def get_content(
    id: str, request: Request, jobs: Jobs, caller: Asking, index: int = 0
) -> Response:
    """Download what a job has made, or the part of it that ``Range`` asks for."""
    job = await jobs.workers.run(jobs.ledger.get, id, caller)
    if job.result is None:
        raise InvalidRequestError(
            f"The job is {job.state}: it has made nothing yet.", code="job_not_completed"
        )
    if not 0 <= index < len(job.result.files):
        raise UnknownJobError(f"{id}/content/{index}")
    return result_response(jobs, job, index, request)


def result_response(jobs: JobRunner, job: Job, index: int, request: Request) -> Response:
    """Return a file that a job has made, or the part of it that ``Range`` asks for."""
    assert job.result is not None
    made = job.result.files[index]
    return file_response(
        request,
        jobs.workers,
        partial(jobs.media.read, made.key),
        num_bytes=made.num_bytes,
        media_type=made.media_type,
        etag=f"{job.id}-{index}-{job.finished_s}",
    )


async def _events(id: str, jobs: JobRunner) -> AsyncGenerator[bytes, None]:
    """Yield a job's states as they come; changes of other servers are looked for."""
    sent: SpeechJobView | None = None
    silent_s = 0.0
    while True:
        changed = jobs.changed
        try:
            job = await jobs.workers.run(jobs.ledger.get, id)
        except UnknownJobError:
            yield b'event: speech.job.deleted\ndata: {"type":"speech.job.deleted"}\n\n'
            return
        view = SpeechJobView.of(job, PATH)
        if view != sent:
            yield _event("speech.job.ended" if job.state.is_final else "speech.job", view)
            sent, silent_s = view, 0.0
        if job.state.is_final:
            return
        if jobs.is_stopping:  # breaks the connection: the job goes on elsewhere
            raise UnavailableError("The server is stopping.")
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


def _complete(body: SpeechJobBody, server: ServerState) -> tuple[str, JobPlan]:
    return body.model_dump_json(exclude_none=True), _plan(body, "new", server)


def _plan_of(server: ServerState, job: Job) -> JobPlan:
    """Read a job's body: it speaks with its owner's voices."""
    return _plan(kept_body(SpeechJobBody, job), job.id, server.seen_by(Caller(job.owner)))


def kept_body(model: type[M], job: Job) -> M:
    """Read a job's body; raises StorageError if it cannot be read."""
    try:
        return model.model_validate_json(job.body)
    except ValidationError as error:
        raise StorageError(UNREADABLE.message, code=UNREADABLE.code) from error


def _plan(body: SpeechJobBody, id: str, server: ServerState) -> JobPlan:
    """Describe a job's work; chapters after the first have seeds of their own."""
    chapters, speed = [], MAX_SPEED
    for index, part in enumerate(body.parts):
        speech = body.speech(part)
        request = replace(speech.to_domain(f"{id}-{index}"), is_live=False)
        assert request.seed is not None
        request = replace(request, seed=segment_seed(request.seed, index) & MAX_SEED)
        model = server.speech.model(request.model)
        turns, _ = tagged_turns(speech, request, server)
        speed = min(speed, *(turn.speed for turn in turns))
        parts = [
            ChapterPart(turn.input, partial(open_stream, speech, turn, server)) for turn in turns
        ]
        chapters.append(Chapter(part.title, tuple(parts)))
    return JobPlan(
        model_name=model.name,
        chapters=tuple(chapters),
        format=speech.response_format,
        sample_rate_hz=request.sample_rate_hz or model.capabilities.sample_rate_hz,
        is_split=body.output == "chapters",
        speed=speed,
        model_rate_hz=model.capabilities.sample_rate_hz,
        channels=model.capabilities.channels,
    )
