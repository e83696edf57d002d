"""The API under uvicorn: loads the model, prints the banner, and shuts down gracefully."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import FrameType
from typing import NoReturn

import uvicorn

from antiphon.api.app import create_app
from antiphon.api.front_end import FrontEnd
from antiphon.api.state import ServerState
from antiphon.api.transport.connections import max_open_connections
from antiphon.api.transport.feed_queue import FeedQueue
from antiphon.api.transport.listener import ConnectionListener
from antiphon.api.transport.protocols import uvicorn_options
from antiphon.cli.banner import Banner, announce
from antiphon.cli.listen import bind
from antiphon.cli.progress import shown_progress
from antiphon.cli.watchdog import Watchdog
from antiphon.concurrency import set_interpreter_for_streams, settle_heap
from antiphon.config import Settings
from antiphon.contracts.types import LoadProgress
from antiphon.errors import UnavailableError
from antiphon.pipeline.jobs.runner import JobRunner
from antiphon.telemetry import tracing
from antiphon.telemetry.logs import configure_logging
from antiphon.web.routes import page_routes

logger = logging.getLogger(__name__)

GRACEFUL_SHUTDOWN_S = 5
"""How long open streams may go on after Ctrl-C before they are cut."""
LAST_RESORT_S = 8
"""How much longer than its grace a server may take to stop, whatever hangs."""
QUIET_TICKS = 5
"""Tenths of a second without any work, after which a server that drains has drained."""


class ApiServer(uvicorn.Server):
    """Enters the app's lifespan itself: what fails while loading is raised, not logged."""

    def __init__(
        self,
        settings: Settings,
        front_end: FrontEnd | None = None,
        on_started: Callable[[Banner], None] = announce,
    ) -> None:
        """Load nothing yet.

        Args:
            front_end: this front end, if there are several; ``None``: the only one.
        """
        self._show: LoadProgress | None = None
        self._front_end = front_end
        self._on_started = on_started
        self._app = create_app(
            settings, pages=page_routes(), progress=self._show_progress, front_end=front_end
        )
        self._settings = settings
        self._loaded = AsyncExitStack()
        self._drained_by_s: float | None = None
        self._num_quiet_ticks = 0
        self._feed_queue = FeedQueue()
        self._watchdog = Watchdog(settings.limits.exit_unhealthy_s)
        self._releasing: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        super().__init__(
            uvicorn.Config(
                self._app,
                lifespan="off",
                log_config=None,
                access_log=False,  # it has queries, which can hold keys; see `AccessLogMiddleware`
                server_header=False,
                timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
                **uvicorn_options(
                    front_end.share_of(settings.limits) if front_end else settings.limits,
                    self._app.state.guards.metrics,
                    max_open=max_open_connections(settings.limits),
                    queue=self._feed_queue,
                ),
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        self._loading = asyncio.create_task(self._load(), name="load")
        try:
            await self._loading
        except asyncio.CancelledError:
            if not self.should_exit:
                raise
            end_process()  # threads that load cannot be cancelled, and would be waited for
        self._loading = None
        if self._settings.models.unloads:
            gc.collect()
        else:
            settle_heap()
        set_interpreter_for_streams()
        if sys.platform == "win32":
            await super().startup(sockets)
        else:
            await super().startup([])
            lead = None if self._front_end is None else self._lead
            is_full = self._feed_queue.is_full
            listener = ConnectionListener(sockets, self._protocol, lead, is_full)
            self.servers += [listener]  # type: ignore[list-item] # it is closed like one
            if self._front_end is not None:
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._retire)
        self._on_started(Banner.of(self._state, sockets))

    async def _load(self) -> None:
        lifespan = self._app.router.lifespan_context(self._app)
        if self._front_end is not None:  # the parent shows the progress of all
            await self._loaded.enter_async_context(lifespan)
            return
        with shown_progress("loading", logger.info) as self._show:
            await self._loaded.enter_async_context(lifespan)
        self._show = None

    def _lead(self) -> int:
        """Return how many connections more this front end has than the one with the fewest."""
        assert self._front_end is not None
        num_own = len(self.server_state.connections)
        return num_own - min(self._front_end.publish_connections(num_own))

    def _protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    @property
    def _state(self) -> ServerState:
        state = self._app.state.server
        assert isinstance(state, ServerState)
        return state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM drains, Ctrl-C gives streams a few seconds, and a second signal gives none."""
        grace_s = float(GRACEFUL_SHUTDOWN_S)
        if self.should_exit or self._drained_by_s is not None:
            self.should_exit = self.force_exit = True
        elif sig == signal.SIGTERM and self.started:
            self._state.guards.connections.drain()
            grace_s = self._begin_to_drain()
        else:
            self.should_exit = True
        if self._loading is not None:
            self._loading.get_loop().call_soon_threadsafe(self._loading.cancel)
        self._watchdog.end_within(grace_s + LAST_RESORT_S)

    def _retire(self) -> None:
        """End once all that is under way has ended, while other front ends take what comes."""
        for server in self.servers:
            server.close()
        self._state.guards.connections.retire()
        self._watchdog.end_within(self._begin_to_drain() + LAST_RESORT_S)

    def _begin_to_drain(self) -> float:
        """Stop when nothing is under way any more; return the seconds that it may take."""
        grace_s = self._settings.limits.grace_s
        self._drained_by_s = time.monotonic() + grace_s
        return grace_s

    async def on_tick(self, counter: int) -> bool:
        self._watchdog.tick(is_healthy=not self._state.has_failed)
        if self._drained_by_s is not None:
            self._release_jobs()
            is_late = time.monotonic() >= self._drained_by_s
            if is_late:
                self.config.timeout_graceful_shutdown = 0  # they had their time
            self.should_exit |= is_late or self._is_quiet()
        return await super().on_tick(counter)

    def _release_jobs(self) -> None:
        """Release the job under way to another server; closing the app waits for it."""
        if self._releasing is None:
            runners: tuple[JobRunner, ...] = (self._app.state.jobs, self._app.state.video_jobs)
            self._releasing = asyncio.create_task(_released(runners), name="release jobs")

    def _is_quiet(self) -> bool:
        """Whether no request has been under way for a moment; silent WebSockets do not count."""
        is_busy = self._state.guards.connections.num_open["http"] or self._state.num_speaking
        self._num_quiet_ticks = 0 if is_busy else self._num_quiet_ticks + 1
        return self._num_quiet_ticks >= QUIET_TICKS

    def _show_progress(self, part: str, num_done: int, num_all: int) -> None:
        if self._show is not None:  # what is loaded later is loaded without a word
            self._show(part, num_done, num_all)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._release_jobs()
        await super().shutdown(sockets)
        if cut := set(self.server_state.tasks):
            if self.force_exit:  # a second Ctrl-C: uvicorn has not waited for them
                for task in cut:
                    task.cancel()
            await asyncio.wait(cut, timeout=GRACEFUL_SHUTDOWN_S)  # they still use the model
        await self._loaded.aclose()


async def _released(runners: tuple[JobRunner, ...]) -> None:
    await asyncio.gather(*(each.release() for each in runners))


def end_process() -> NoReturn:
    """End the process with status 0, without waiting for its threads."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


_NO_ALARMS = (
    "ASGI callable returned without completing handshake.",
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
)


class _NoFalseAlarms(logging.Filter):
    """Drops records that are no faults: streams cut by the server's end, our own refusals."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.getMessage() in _NO_ALARMS:
            return False
        cut = (asyncio.CancelledError, UnavailableError)
        return not (record.exc_info and isinstance(record.exc_info[1], cut))


def configure(settings: Settings, process: str | None = None) -> None:
    """Configure the logs and traces of a process; ``process`` names one of several."""
    configure_logging(settings.server.log_level, settings.server.log_format, process)
    tracing.switch(on=settings.server.traces)
    logging.getLogger("uvicorn.error").addFilter(_NoFalseAlarms())


def run(settings: Settings) -> None:
    """Serve until Ctrl-C or SIGTERM; both end the process well.

    Raises:
        SettingsError: the address cannot be listened on.
        ModelLoadError: the model cannot be served.
    """
    configure(settings)
    sockets = bind(settings.server)
    try:
        ApiServer(settings).run(sockets)
    except KeyboardInterrupt:
        return  # raised again by uvicorn, after everything has been closed
    finally:
        for each in sockets:
            each.close()
