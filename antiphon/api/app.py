"""Puts the server together: routes, middleware, and a life that begins with a loaded model."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from antiphon import __version__
from antiphon.api import health, models, speech, voices
from antiphon.api.errors import ErrorMiddleware, raised_by_framework
from antiphon.api.middleware import (
    REQUEST_ID_HEADER,
    ApiKeyMiddleware,
    BodyLimitMiddleware,
    RequestIdMiddleware,
)
from antiphon.api.state import ServerState
from antiphon.concurrency import Workers
from antiphon.config import ServerSettings, Settings
from antiphon.pipeline.runtime import LoadedModel
from antiphon.pipeline.speech import Speech
from antiphon.types import LoadProgress
from antiphon.voices.recordings import Recordings
from antiphon.web.routes import mount

logger = logging.getLogger(__name__)

EXPOSED_HEADERS = (
    REQUEST_ID_HEADER,
    "X-Sample-Rate",
    "X-Finish-Reason",
    "Retry-After",
    "retry-after-ms",
    "x-should-retry",
)


def create_app(settings: Settings, *, progress: LoadProgress | None = None) -> FastAPI:
    """Return the server and its page; the model is loaded when it starts, before any request.

    Args:
        settings: of all.
        progress: told, in other threads, how far loading is.

    Raises:
        ModelLoadError: from the start-up, not from here: the model cannot be served.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as stack:
            app.state.server = await _start(settings, progress, stack)
            yield

    app = FastAPI(
        title="Antiphon",
        version=__version__,
        lifespan=lifespan,
        redoc_url=None,
        redirect_slashes=False,
    )
    for resource in (speech, models, voices, health):
        app.include_router(resource.router)
    mount(app)
    app.add_exception_handler(HTTPException, raised_by_framework)
    app.add_exception_handler(RequestValidationError, raised_by_framework)
    _add_middleware(app, settings.server)
    return app


def _add_middleware(app: FastAPI, settings: ServerSettings) -> None:
    """Wrap the app, from the inside out: each sees what those above it have answered."""
    app.add_middleware(BodyLimitMiddleware, max_body_bytes=settings.max_body_bytes)
    app.add_middleware(ApiKeyMiddleware, api_keys=settings.api_keys)
    app.add_middleware(ErrorMiddleware)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=EXPOSED_HEADERS,
    )
    app.add_middleware(RequestIdMiddleware)


async def _start(
    settings: Settings, progress: LoadProgress | None, stack: AsyncExitStack
) -> ServerState:
    """Load the model and warm it in the background; ``stack`` undoes it all in reverse order."""
    model = await LoadedModel.load(settings.model, progress=progress)
    stack.push_async_callback(model.close)
    server_speech = Speech({model.name: model}, settings.speech)
    stack.callback(server_speech.close)
    encoders = Workers("encoder")
    stack.callback(encoders.close)
    recordings = Recordings(settings.references)
    stack.callback(recordings.close)
    stack.push_async_callback(model.fabric.drain)
    warm_up = asyncio.create_task(model.warm_up(), name="warm-up")
    warm_up.add_done_callback(_log_failed_warm_up)
    stack.callback(warm_up.cancel)
    return ServerState(
        settings=settings,
        speech=server_speech,
        encoders=encoders,
        recordings=recordings,
        warm_up=warm_up,
        created_s=int(time.time()),
    )


def _log_failed_warm_up(warm_up: "asyncio.Task[None]") -> None:
    if not warm_up.cancelled() and (error := warm_up.exception()) is not None:
        logger.error("the model could not be warmed up", exc_info=error)
