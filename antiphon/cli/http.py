"""Runs the API under uvicorn: loads the model, says when it listens, and stops in good order."""

import asyncio
import gc
import logging
import socket
from contextlib import AsyncExitStack

import uvicorn

from antiphon.api.app import create_app
from antiphon.api.state import ServerState
from antiphon.cli.banner import announce
from antiphon.cli.listen import bind
from antiphon.cli.progress import shown_progress
from antiphon.config import Settings
from antiphon.telemetry import configure_logging
from antiphon.types import LoadProgress

logger = logging.getLogger(__name__)

GRACEFUL_SHUTDOWN_S = 5
"""How long open streams may go on after Ctrl-C before they are cut."""


class _Server(uvicorn.Server):
    """Enters the app's lifespan itself: what fails while loading is raised, not logged."""

    def __init__(self, settings: Settings) -> None:
        self._show: LoadProgress | None = None
        self._app = create_app(settings, progress=self._show_progress)
        self._settings = settings
        self._loaded = AsyncExitStack()
        super().__init__(
            uvicorn.Config(
                self._app,
                lifespan="off",
                log_config=None,
                access_log=settings.server.log_level == "debug",
                server_header=False,
                timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        with shown_progress("loading", logger.info) as self._show:
            await self._loaded.enter_async_context(self._app.router.lifespan_context(self._app))
        gc.collect()
        gc.freeze()  # dictionaries and weights stay: going over them would hold up every stream
        await super().startup(sockets)
        state = self._app.state.server
        assert isinstance(state, ServerState)
        for model in state.speech.models.values():
            announce(model, self._settings.server, sockets[0].getsockname()[1])

    def _show_progress(self, part: str, num_done: int, num_all: int) -> None:
        assert self._show is not None, "only what is started is loaded"
        self._show(part, num_done, num_all)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if cut := set(self.server_state.tasks):
            if self.force_exit:  # a second Ctrl-C: uvicorn has not waited for them
                for task in cut:
                    task.cancel()
            await asyncio.wait(cut, timeout=GRACEFUL_SHUTDOWN_S)  # they still use the model
        await self._loaded.aclose()


class _NoCancellations(logging.Filter):
    """Drops tracebacks of streams that were cut because the server stops."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def run(settings: Settings) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Raises:
        SettingsError: the address cannot be listened on.
        ModelLoadError: the model cannot be served.
    """
    configure_logging(settings.server.log_level)
    if settings.server.log_level != "debug":
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_NoCancellations())
    sockets = bind(settings.server)
    try:
        _Server(settings).run(sockets)
    except KeyboardInterrupt:
        return  # raised again by uvicorn, after everything has been closed
    finally:
        for each in sockets:
            each.close()
