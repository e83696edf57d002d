"""A real server on a free port of the loopback, in a thread of this process."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI

from antiphon.api.app import create_app
from antiphon.api.state import ServerState
from antiphon.api.transport.protocols import uvicorn_options
from antiphon.config import ModelSettings, Settings
from antiphon.web.routes import page_routes

T = TypeVar("T")

TOY = Settings(model=ModelSettings(source="toy"))
DEADLINE_S = 60.0
"""For what must happen at all; how soon is nowhere asserted."""
TICK_S = 0.02


@dataclass(frozen=True)
class RunningServer:
    """A server that listens, and a way into its event loop."""

    base_url: str
    port: int
    app: FastAPI
    loop: asyncio.AbstractEventLoop
    thread_id: int

    @property
    def state(self) -> ServerState:
        state = self.app.state.server
        assert isinstance(state, ServerState)
        return state

    @property
    def num_open(self) -> int:
        """Streams that are open in the fabric, over all stages."""
        return sum(model.status.num_open for model in self.state.speech.models.values())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE_S)

    def tasks(self) -> set["asyncio.Task[Any]"]:
        """Return the tasks of the server's loop, without the one that asks."""

        async def others() -> set["asyncio.Task[Any]"]:
            return asyncio.all_tasks() - {asyncio.current_task()}

        return self.run(others())


class _Server(uvicorn.Server):
    """Notices soon that it is to stop: uvicorn looks ten times a second."""

    async def main_loop(self) -> None:
        counter = 0
        while not await self.on_tick(counter):
            counter += 1
            await asyncio.sleep(TICK_S)


@contextmanager
def start_server(
    settings: Settings = TOY,
    *,
    loop: str = "auto",
    http: str = "auto",
    send_buffer_bytes: int | None = None,
    on_app: Callable[[FastAPI], None] | None = None,
) -> Generator[RunningServer, None, None]:
    """Serve until the block ends; the model is loaded when the block begins.

    Args:
        settings: of the server.
        loop: ``"asyncio"``, ``"uvloop"`` or ``"auto"``.
        http: uvicorn's HTTP implementation.
        send_buffer_bytes: how much the kernel may hold of what a client has not read.
        on_app: is given the app before it starts.
    """
    app = create_app(settings, pages=page_routes())
    if on_app is not None:
        on_app(app)
    listener = socket.create_server(("127.0.0.1", 0))
    if send_buffer_bytes is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    server = _Server(
        uvicorn.Config(
            app,
            loop=loop,
            log_config=None,
            timeout_graceful_shutdown=1,
            **uvicorn_options(settings.limits, app.state.guards.metrics, http=http),
        )
    )
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve(sockets=[listener])

    def in_thread() -> None:
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(serve())

    thread = threading.Thread(target=in_thread, name="server")
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started, "the server did not start"
        assert thread.ident is not None
        port = listener.getsockname()[1]
        yield RunningServer(f"http://127.0.0.1:{port}", port, app, loops[0], thread.ident)
    finally:
        server.should_exit = True
        thread.join(DEADLINE_S)
        listener.close()
    assert not thread.is_alive(), "the server did not stop"


def wait_until(condition: Callable[[], bool]) -> None:
    """Return once ``condition`` holds; fail if it never does."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came true"
        time.sleep(0.005)
