"""Puts the server together: routes, middleware, and a life that begins with a loaded model."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route

from antiphon import __version__
from antiphon.api import (
    chat,
    health,
    images,
    media,
    models,
    realtime,
    speech,
    speech_batch,
    speech_get,
    speech_jobs,
    speech_ws,
    video_jobs,
    videos,
    voice_consents,
    voices,
)
from antiphon.api.adapters import ADAPTERS
from antiphon.api.adapters.errors import ServiceErrorMiddleware
from antiphon.api.description import DescribedApi
from antiphon.api.encoding import UNSPOKEN_HEADER, UNSPOKEN_OMITTED_HEADER
from antiphon.api.errors import ErrorMiddleware
from antiphon.api.front_end import FrontEnd
from antiphon.api.loop_lag import LoopLag
from antiphon.api.middleware.base import (
    REQUEST_ID_HEADER,
    AccessLogMiddleware,
    ApiKeyMiddleware,
    MethodMiddleware,
    RequestIdMiddleware,
    raise_again,
)
from antiphon.api.middleware.body import BodyMiddleware
from antiphon.api.middleware.connection_limits import (
    ConnectionLimitMiddleware,
    ConnectionLimits,
    DrainMiddleware,
)
from antiphon.api.middleware.failed_keys import FailedKeys
from antiphon.api.middleware.keys import KeyRing
from antiphon.api.middleware.limit_table import LimitTable
from antiphon.api.middleware.memory_budget import MemoryBudget, MemoryTrimmer
from antiphon.api.middleware.origins import PageMiddleware, Reach, ReachMiddleware
from antiphon.api.middleware.rate_limit import RateLimitMiddleware, RateLimits
from antiphon.api.options import IGNORED_HEADER
from antiphon.api.speech_jobs import start_jobs
from antiphon.api.state import Guards, ServerState
from antiphon.api.storage_watch import StorageWatch
from antiphon.api.video_jobs import start_video_jobs
from antiphon.concurrency import Workers
from antiphon.config import Settings
from antiphon.contracts.types import LoadProgress
from antiphon.fabric.replicas.fabric import ReplicaFabric
from antiphon.media.image_files import ImageFiles
from antiphon.media.references import ReferenceLoader
from antiphon.pipeline.chat.service import CHAT, Chats
from antiphon.pipeline.media_files import MediaFiles
from antiphon.pipeline.model_loading import ServedModels, load_models
from antiphon.pipeline.pictures.images import Images
from antiphon.pipeline.pictures.service import IMAGE, VIDEO
from antiphon.pipeline.pictures.videos import Videos
from antiphon.pipeline.speech.model import SPEECH, SpeechModel
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.voice_service import VoiceService
from antiphon.telemetry.metrics import Metrics
from antiphon.voices.recordings import Recordings

logger = logging.getLogger(__name__)

RESOURCES = (
    *(speech, speech_get, speech_batch, speech_jobs, speech_ws, realtime),
    *(images, chat, media),
    *(videos, video_jobs),
    *(models, voices, voice_consents, health),
    *ADAPTERS,
)
EXPOSED_HEADERS = (
    *(REQUEST_ID_HEADER, "X-Sample-Rate", "X-Channels", "X-Finish-Reason", IGNORED_HEADER),
    *("X-Word-Timestamps", "X-Word-Timestamps-Omitted"),
    *(UNSPOKEN_HEADER, UNSPOKEN_OMITTED_HEADER),
    *("Retry-After", "retry-after-ms", "x-should-retry"),
    *("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests"),
    "x-ratelimit-reset-requests",
)


def create_app(
    settings: Settings,
    *,
    pages: Sequence[Route] = (),
    progress: LoadProgress | None = None,
    front_end: FrontEnd | None = None,
) -> FastAPI:
    """Return the server; the model is loaded when it starts, before any request.

    Args:
        pages: routes that are not part of the API.
        progress: called in other threads while models load.
        front_end: Index of this front end among several; ``None``: the only one.

    Raises:
        SettingsError: the API keys cannot be read.
        ModelLoadError: from the start-up, not from here: the model cannot be served.
    """
    front_end = front_end or FrontEnd()
    guards = _guards(settings, Metrics(front_end.metrics), front_end.table)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as stack:
            app.state.server = server = await _start(settings, guards, progress, front_end, stack)
            spoken = server.models.speech.values()
            described.loaded_tasks = lambda: {each.family.name: each.task for each in spoken}
            app.state.jobs = await start_jobs(app.state.server, stack)
            app.state.video_jobs = await start_video_jobs(app.state.server, stack)
            await app.state.server.storage.start(stack)
            yield

    app = described = DescribedApi(
        title="Antiphon",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # ours are in telemetry/
    )
    app.state.guards = guards
    app.router.routes.extend(pages)
    for resource in RESOURCES:
        # Not included, which would prepare each route anew for every app, when it is first asked.
        app.router.routes.extend(resource.router.routes)
    for error in (HTTPException, RequestValidationError):
        app.add_exception_handler(error, raise_again)
    app.add_middleware(MethodMiddleware, routes=list(app.routes))
    _add_middleware(app, settings, guards)
    return app


def _guards(settings: Settings, metrics: Metrics, table: LimitTable) -> Guards:
    observers = metrics.memory_reserved.set, MemoryTrimmer().see
    return Guards(
        connections=ConnectionLimits(settings.limits, table),
        keys=KeyRing.of(settings.server),
        metrics=metrics,
        memory=MemoryBudget(settings.limits, table, *observers),
        table=table,
    )


def _add_middleware(app: FastAPI, settings: Settings, guards: Guards) -> None:
    """Wrap the app, from the inside out: each sees what those above it have answered."""
    server, limits = settings.server, settings.limits
    app.add_middleware(
        BodyMiddleware,
        budget=guards.memory,
        keys=guards.keys,
        max_bytes=server.max_body_bytes,
        timeout_s=limits.body_timeout_s,
    )
    rates = RateLimits(limits, guards.table)
    app.add_middleware(RateLimitMiddleware, limits=rates, keys=guards.keys)
    failed = FailedKeys(limits.key_failures_per_minute, guards.table)
    app.add_middleware(ApiKeyMiddleware, keys=guards.keys, failed=failed)
    reach = Reach.of(server, asks_for_keys=bool(guards.keys))
    app.add_middleware(ReachMiddleware, reach=reach)
    app.add_middleware(ConnectionLimitMiddleware, limits=guards.connections, keys=guards.keys)
    app.add_middleware(ErrorMiddleware, metrics=guards.metrics)
    app.add_middleware(ServiceErrorMiddleware)
    app.add_middleware(PageMiddleware, reach=reach, expose_headers=EXPOSED_HEADERS)
    app.add_middleware(DrainMiddleware, limits=guards.connections)
    is_json = server.log_format == "json"
    app.add_middleware(AccessLogMiddleware, metrics=guards.metrics, logs_requests=is_json)
    app.add_middleware(RequestIdMiddleware)


async def _start(
    settings: Settings,
    guards: Guards,
    progress: LoadProgress | None,
    front_end: FrontEnd,
    stack: AsyncExitStack,
) -> ServerState:
    """Load models and warm them in the background; ``stack`` undoes it all in reverse order."""
    cluster = None if front_end.connect is None else await front_end.connect()
    if cluster is not None:
        guards.metrics.processes = cluster.controller.processes
    models = await load_models(settings, progress, stack, cluster)
    fabric = models.tasks[0].fabric
    if isinstance(fabric, ReplicaFabric):
        fabric.observe = guards.metrics.count_moves
    guards.metrics.engines = lambda: tuple(models.engine_stats())
    stack.callback(LoopLag(guards.metrics.event_loop_lag_s.labels(front_end.index)).stop)
    closed = stack.enter_context
    references = closed(closing(ReferenceLoader(settings.references)))
    recordings = closed(closing(Recordings(settings.references, references)))
    uploaded = closed(closing(VoiceService(settings.data, recordings)))
    await uploaded.sweep()
    metrics, others = guards.metrics, models.others
    speech_service = closed(
        closing(Speech(models.speech, settings.speech, metrics, uploaded, others(SPEECH)))
    )
    chats = closed(
        closing(Chats(models.chats, settings.chat, metrics, others(CHAT), models.chat_voices))
    )
    images_service = closed(closing(Images(models.images, settings.images, metrics, others(IMAGE))))
    image_files = closed(closing(ImageFiles(references)))
    videos_service = closed(closing(Videos(models.videos, settings.videos, metrics, others(VIDEO))))
    encoders = closed(closing(Workers("encoder")))
    stack.push_async_callback(fabric.drain)
    warming = asyncio.create_task(_warm_up(models, recordings), name="warm-up")
    warming.add_done_callback(_log_failed_warm_up)
    stack.callback(warming.cancel)
    return ServerState(
        settings=settings,
        models=models,
        speech=speech_service,
        chats=chats,
        images=images_service,
        image_files=image_files,
        media=_start_media(settings, models, stack),
        videos=videos_service,
        encoders=encoders,
        references=references,
        recordings=recordings,
        uploaded=uploaded,
        warm_up=warming,
        guards=guards,
        storage=StorageWatch({"uploaded voices": uploaded.check}),
        created_s=int(time.time()),
    )


async def _warm_up(models: ServedModels, recordings: Recordings) -> None:
    """Warm the models that are loaded, and what recordings of voices need if one clones them."""
    loaded = [model for model in models.tasks if model.is_loaded]
    if any(isinstance(each, SpeechModel) and each.capabilities.needs_encoder for each in loaded):
        await recordings.start()
    for model in loaded:
        await model.warm_up()


def _start_media(settings: Settings, models: ServedModels, stack: AsyncExitStack) -> MediaFiles:
    """Keep what models draw, if any does; ``stack`` undoes it."""
    files = MediaFiles.of(settings)
    stack.callback(files.close)
    if models.images or models.videos:
        sweeping = asyncio.create_task(files.sweep_for_ever(), name="sweep media")
        stack.callback(sweeping.cancel)
    return files


def _log_failed_warm_up(warm_up: "asyncio.Task[None]") -> None:
    if not warm_up.cancelled() and (error := warm_up.exception()) is not None:
        logger.error("the model could not be warmed up", exc_info=error)
