"""A stage process of this host, restarted when it has ended."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from antiphon.errors import ReplicaLostError
from antiphon.fabric.cluster.child_process import ChildProcess
from antiphon.fabric.wire.address import WireAddress
from antiphon.fabric.wire.stage_client import StageConnection
from antiphon.telemetry.process_state import ProcessState
from antiphon.telemetry.stage_status import StageStatus

logger = logging.getLogger(__name__)

STOP_S = 8.0
"""Time that a stage process may take to end."""
HEALTHY_S = 60.0
"""Lifetime after which a process is restarted without a delay."""
MAX_PAUSE_S = 30.0
_FIRST_PAUSE_S = 0.5
_LOOK_S = 1.0
_ANSWER_S = 5.0


class Backoff:
    """Backoff before a process that has ended is started again."""

    def __init__(self) -> None:
        """Begin with a process that never ran."""
        self.num_starts = 0
        self._num_quick_deaths = 0
        self._started_s = 0.0

    async def wait(self) -> None:
        """Return when it may be started: at once, unless it has ended early more than once."""
        loop = asyncio.get_running_loop()
        if self.num_starts:
            lived_s = loop.time() - self._started_s
            self._num_quick_deaths = 0 if lived_s > HEALTHY_S else self._num_quick_deaths + 1
            if self._num_quick_deaths > 1:
                pause_s = _FIRST_PAUSE_S * 2 ** (self._num_quick_deaths - 2)
                await asyncio.sleep(min(MAX_PAUSE_S, pause_s))
        self._started_s = loop.time()
        self.num_starts += 1

    @property
    def num_restarts(self) -> int:
        """Starts after the first one."""
        return max(0, self.num_starts - 1)


Launch = Callable[[], Awaitable[ChildProcess]]
"""Starts the process, which reports the address at which it listens."""


class RestartedProcess:
    """Gives connections to the current process.

    Attributes:
        num_users: number of users; kept by its owner.
    """

    def __init__(self, name: str, launch: Launch, token: str, stall_s: float) -> None:
        """Start nothing yet.

        Args:
            launch: function that starts the process.
            stall_s: duration of a step after which the process is ended.
        """
        self.name = name
        self.num_users = 0
        self._launch = launch
        self._token = token
        self._stall_s = stall_s
        self._turn = asyncio.Lock()
        self._child: ChildProcess | None = None
        self._connection: StageConnection | None = None
        self._backoff = Backoff()

    @property
    def state(self) -> ProcessState:
        """State for metrics."""
        child = self._child
        num_restarts = self._backoff.num_restarts
        if child is None:
            return ProcessState(self.name, 0, is_up=False, num_restarts=num_restarts)
        return ProcessState(self.name, child.pid, child.is_running, num_restarts)

    def status(self, stage: str) -> StageStatus:
        """Return the last status of a stage; the empty status without a connection."""
        return StageStatus() if self._connection is None else self._connection.status(stage)

    async def connection(self) -> StageConnection:
        """Return a connection; start the process if it does not run, with backoff.

        Raises:
            EngineError: the process has ended before it listened.
            ReplicaLostError: it does not answer.
        """
        async with self._turn:
            if self._connection is not None and self._connection.lost is None:
                return self._connection
            await self._end(0.0)
            await self._backoff.wait()
            self._child = await self._launch()
            address = await self._child.reported()
            self._connection = await StageConnection.connect(address, self._token)
            logger.info("%s runs (pid %d)", self.name, self._child.pid)
            return self._connection

    async def broken(self, stage: str) -> str:
        """Wait until the process has ended, or a stage has failed or hangs; return the cause."""
        connection = self._connection
        if connection is None:
            return "it does not run"
        while connection.lost is None:
            status = connection.status(stage)
            if status.failure is not None:
                break
            if (stalled_s := status.stalled_s()) > self._stall_s:
                await self.kill()
                return f"a step has taken {stalled_s:.0f} seconds"
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await connection.closed.wait()
        else:
            return await self._cause()
        await self.kill()
        return status.failure

    async def release(self, stage: str) -> None:
        """Unload stages, if the process runs."""
        if self._connection is not None:
            with suppress(ReplicaLostError):
                await self._connection.release(stage)

    async def check(self) -> None:
        """End the process if it does not answer."""
        connection = self._connection
        if connection is None or connection.lost is not None:
            return
        try:
            async with asyncio.timeout(_ANSWER_S):
                await connection.release("")  # of nothing
        except TimeoutError:
            logger.error("%s does not answer; killing it", self.name)
            await self.kill()
        except ReplicaLostError:
            return

    async def kill(self) -> None:
        """Kill the process."""
        await self._end(0.0)

    async def stop(self) -> None:
        """Stop the process gracefully."""
        async with self._turn:
            await self._end(STOP_S)

    async def _end(self, grace_s: float) -> None:
        connection, self._connection = self._connection, None
        if self._child is not None:
            await self._child.stop(grace_s)
        if connection is not None:
            connection.close()
            if (path := WireAddress.parse(connection.address).path) is not None:
                path.unlink(missing_ok=True)  # it was killed

    async def _cause(self) -> str:
        """Return how the process or its connection has ended."""
        if self._child is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    status = await self._child.wait()
                how = f"by signal {-status}" if status < 0 else f"with status {status}"
                return f"its process has ended {how}"
        return "the connection to its process was lost"
