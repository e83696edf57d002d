"""A real server on a free port of the loopback, in a thread of this process.

With ``ANTIPHON_TEST_FRONT_ENDS=N`` in the environment it is one of several processes, N of them
front ends, as ``antiphon serve`` starts them. Tests that look into it are skipped then.
"""

import asyncio
import io
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from antiphon.api.app import create_app
from antiphon.api.state import ServerState
from antiphon.api.transport.protocols import uvicorn_options
from antiphon.config import ModelSettings, Settings
from antiphon.web.routes import page_routes
from tests.loops import DEADLINE_S as DEADLINE_S

T = TypeVar("T")

NUM_FRONT_ENDS = int(os.environ.get("ANTIPHON_TEST_FRONT_ENDS", "0"))

TOY = Settings(model=ModelSettings(source="toy"))
OPENAI_KEY = "sk-test"
"""Of the server that OpenAI's SDK is connected to."""
TICK_S = 1.0
"""Between two looks of an idle server at the time of day."""


@dataclass(frozen=True)
class RunningServer:
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
        return sum(model.status.num_open for model in self.state.models.tasks)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE_S)

    def tasks(self) -> set["asyncio.Task[Any]"]:

        async def others() -> set["asyncio.Task[Any]"]:
            return asyncio.all_tasks() - {asyncio.current_task()}

        return self.run(others())


class OtherProcesses(RunningServer):
    """A server that cannot be looked into."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("app", "loop", "thread_id", "state", "num_open", "run", "tasks"):
            pytest.skip("looks into the server, which is several processes")
        return super().__getattribute__(name)


class _Server(uvicorn.Server):
    """Stops when it is told to; uvicorn looks ten times a second, which many idle servers feel."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_told = asyncio.Event()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._is_told.wait()

    def stop(self) -> None:
        self.should_exit = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._is_told.set)


_pages = cache(page_routes)
"""Routes of the page: reading its files takes as long as the rest of a server's start."""


@contextmanager
def start_server(
    settings: Settings = TOY,
    *,
    loop: str = "auto",
    http: str = "auto",
    send_buffer_bytes: int | None = None,
    keep_alive_s: int = 5,
    on_app: Callable[[FastAPI], None] | None = None,
) -> Generator[RunningServer, None, None]:
    """Serve until the block ends; the model is loaded and warm when the block begins.

    Args:
        settings: of the server.
        loop: ``"asyncio"``, ``"uvloop"`` or ``"auto"``.
        http: uvicorn's HTTP implementation.
        send_buffer_bytes: how much the kernel may hold of what a client has not read.
        keep_alive_s: how long a connection may be silent between two requests.
        on_app: called with the app before it starts.
    """
    if NUM_FRONT_ENDS:
        assert on_app is None
        yield from _start_front_ends(settings)
        return
    app = create_app(settings, pages=_pages())
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
            timeout_keep_alive=keep_alive_s,
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
        # Replicas on Ray are processes that import everything first: minutes on a busy machine.
        wait_until(lambda: server.started or not thread.is_alive(), 4 * DEADLINE_S)
        assert server.started, "the server did not start"
        assert thread.ident is not None
        port = listener.getsockname()[1]
        running = RunningServer(f"http://127.0.0.1:{port}", port, app, loops[0], thread.ident)
        wait_until(running.state.warm_up.done, 4 * DEADLINE_S)
        yield running
        assert thread.is_alive(), "the server ended by itself"
    finally:
        server.stop()
        thread.join(2 * DEADLINE_S)
        listener.close()
    assert not thread.is_alive(), f"the server did not stop\n{_what_runs(app, loops[0])}"


def with_own_data(settings: Settings, factory: pytest.TempPathFactory) -> Settings:
    """Return settings of a server that outlives a file: who shares its data would run its jobs."""
    data = settings.data.model_copy(update={"dir": factory.mktemp("data")})
    return settings.model_copy(update={"data": data})


def server_of(settings: Settings = TOY, **options: Any) -> Any:
    """Return a fixture: a server that the tests of a file share; ``options`` of `start_server`."""

    @pytest.fixture(scope="module")
    def server() -> Generator[RunningServer, None, None]:
        with start_server(settings, **options) as running:
            yield running

    return server


def _what_runs(app: FastAPI, loop: asyncio.AbstractEventLoop) -> str:
    """Say what a server waits for: what is open, its tasks, and where all threads are."""
    told = io.StringIO()
    state: ServerState = app.state.server
    print(*(f"{each.name}: {each.status}" for each in state.models.tasks), sep="\n", file=told)
    for task in asyncio.all_tasks(loop):
        task.print_stack(file=told)
    names = {each.ident: each.name for each in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        print(f"Thread {names.get(ident)}:", *traceback.format_stack(frame), file=told)
    return told.getvalue()


_FRONT_ENDS = """
import pickle, sys
from antiphon.cli.front_ends import run_front_ends
run_front_ends(pickle.load(sys.stdin.buffer))
"""


def _start_front_ends(settings: Settings) -> Generator[RunningServer, None, None]:
    if "faulty" in (model.source for model in settings.served()):
        pytest.skip("its model is one of the tests, which other processes do not know")
    server = settings.server.model_copy(update={"front_ends": NUM_FRONT_ENDS, "port": 0})
    with subprocess.Popen(
        [sys.executable, "-c", _FRONT_ENDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(pickle.dumps(settings.model_copy(update={"server": server})))
            process.stdin.close()
            told = b""
            while b"curl" not in told:
                line = process.stdout.readline()
                assert line, "the server did not start"
                told += line
            found = re.search(rb"Page +(http://[^:]+:(\d+))", told)
            assert found is not None
            unknown: Any = None
            running = OtherProcesses(found[1].decode(), int(found[2]), unknown, unknown, 0)
            wait_until(lambda: httpx.get(f"{running.base_url}/ready").status_code == 200)
            yield running
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(DEADLINE_S)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(
    condition: Callable[[], bool], within_s: float = DEADLINE_S, every_s: float = 0.005
) -> None:
    """Return once ``condition`` holds; fail if it never does.

    It is checked every so often at first, and ever less often: a poll of a server that starts takes
    the time in which it would.
    """
    begun_s = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - begun_s
        assert waited_s < within_s, "it never came true"
        time.sleep(max(every_s, min(waited_s / 4, 0.1)))
