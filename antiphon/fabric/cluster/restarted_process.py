"""Child processes that are started again when they have ended, and a stage process among them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from antiphon.errors import ReplicaLostError
from antiphon.fabric.cluster.child_process import ChildProcess
from antiphon.fabric.wire.address import WireAddress
from antiphon.fabric.wire.stage_client import StageConnection
from antiphon.telemetry.process_state import ProcessState

logger = logging.getLogger(__name__)

STOP_S = 8.0
"""Time that a stage process may take to end."""
HEALTHY_S = 60.0
"""Lifetime after which a process is restarted without a delay."""
MAX_PAUSE_S = 30.0
_FIRST_PAUSE_S = 0.5
_LOOK_S = 1.0
_ANSWER_S = 5.0

Launch: TypeAlias = Callable[[], Awaitable[ChildProcess]]
"""Starts a process."""


class RestartedChild:
    """A child process that may be started again, with backoff.

    Attributes:
        child: current process, or the last one; ``None``: there was none yet.
        num_starts: number of starts, the current one included.
    """

    def __init__(self, name: str) -> None:
        """Start nothing yet."""
        self.name = name
        self.child: ChildProcess | None = None
        self.num_starts = 0
        self._num_quick_deaths = 0
        self._started_s = 0.0

    @property
    def is_running(self) -> bool:
        return self.child is not None and self.child.is_running

    @property
    def state(self) -> ProcessState:
        pid = 0 if self.child is None else self.child.pid
        return ProcessState(self.name, pid, self.is_running, max(0, self.num_starts - 1))

    async def start(self, launch: Launch) -> ChildProcess:
        """Start the process: at once, unless it has ended early more than once."""
        loop = asyncio.get_running_loop()
        if self.num_starts:
            lived_s = loop.time() - self._started_s
            self._num_quick_deaths = 0 if lived_s > HEALTHY_S else self._num_quick_deaths + 1
            if self._num_quick_deaths > 1:
                pause_s = _FIRST_PAUSE_S * 2 ** (self._num_quick_deaths - 2)
                await asyncio.sleep(min(MAX_PAUSE_S, pause_s))
        self._started_s = loop.time()
        self.num_starts += 1
        self.child = await launch()
        return self.child

    async def stop(self, grace_s: float) -> None:
        """Stop the current process, by SIGKILL after ``grace_s``."""
        if self.child is not None:
            await self.child.stop(grace_s)


class StageChild(RestartedChild):
    """A stage process of this host, with the connection to it.

    Attributes:
        num_users: number of users; kept by its owner.
        current: last connection to the process that runs; ``None``: none runs.
    """

    def __init__(self, name: str, launch: Launch, token: str, stall_s: float) -> None:
        """Start nothing yet.

        Args:
            launch: function that starts a process, which reports the address at which it listens.
            stall_s: duration of a step after which the process is ended.
        """
        super().__init__(name)
        self.num_users = 0
        self._launch = launch
        self._token = token
        self._stall_s = stall_s
        self._turn = asyncio.Lock()
        self.current: StageConnection | None = None

    async def connection(self) -> StageConnection:
        """Return a connection; start the process if it does not run.

        Raises:
            EngineError: the process has ended before it listened.
            ReplicaLostError: it does not answer.
        """
        async with self._turn:
            if self.current is not None and self.current.lost is None:
                return self.current
            await self.end(0.0)
            child = await self.start(self._launch)
            self.current = await StageConnection.connect(await child.reported(), self._token)
            logger.info("%s runs (pid %d)", self.name, child.pid)
            return self.current

    async def broken(self, connection: StageConnection, stage: str) -> str:
        """Wait until the process has ended, or a stage has failed or hangs; return the cause."""
        watched: StageConnection | None = connection
        while watched is not None:
            while watched.lost is None:
                if (fault := watched.status(stage).fault(self._stall_s)) is not None:
                    await self.end(0.0)
                    return fault
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await watched.closed.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    if self.child is not None:
                        return f"its process has ended {await self.child.ended()}"
            watched = await self._reconnected(watched)
        return "the connection to its process was lost"

    async def _reconnected(self, lost: StageConnection) -> StageConnection | None:
        """Return a new connection to the same process; ``None``: it has ended, or is ended here.

        A process closes the connection of a parent that stood still, and serves on.
        """
        async with self._turn:
            if self.current is None or self.current.address != lost.address:
                return None
            if self.current.lost is not None:
                try:
                    async with asyncio.timeout(_ANSWER_S):
                        self.current = await StageConnection.connect(lost.address, self._token)
                except (TimeoutError, ReplicaLostError):
                    await self.end(0.0)
            return self.current

    async def check(self) -> None:
        """End the process if it does not answer."""
        connection = self.current
        if connection is None or connection.lost is not None:
            return
        try:
            async with asyncio.timeout(_ANSWER_S):
                await connection.release("")  # of nothing
        except TimeoutError:
            logger.error("%s does not answer; killing it", self.name)
            await self.end(0.0)
        except ReplicaLostError:
            return

    async def close(self) -> None:
        async with self._turn:
            await self.end(STOP_S)

    async def end(self, grace_s: float) -> None:
        connection, self.current = self.current, None
        await self.stop(grace_s)
        if connection is not None:
            connection.close()
            if (path := WireAddress.parse(connection.address).path) is not None:
                path.unlink(missing_ok=True)  # it was killed
