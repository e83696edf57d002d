"""Connection to one replica, kept and watched for as long as the replica exists."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from antiphon.errors import AntiphonError, ReplicaLostError
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.wire.stage_client import StageConnection, StageConnections
from antiphon.telemetry.stage_status import StageStatus

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLimits:
    """Limits after which a replica counts as lost or a request fails.

    Attributes:
        wait_s: longest time that a request waits for a replica.
        stall_s: duration of a step after which it counts as hanging.
        look_s: period of the check for hanging steps.
        max_losses: replicas lost between two items of one request, after which it fails.
    """

    wait_s: float = 60.0
    stall_s: float = 120.0
    look_s: float = 2.0
    max_losses: int = 6


class ReplicaLink:
    """Connects to a replica's process, and again whenever the connection was lost.

    Attributes:
        connection: open connection; ``None`` while there is none, or the replica hangs.
    """

    def __init__(
        self,
        replica: Replica,
        connections: StageConnections,
        limits: ReplicaLimits,
        *,
        on_change: Callable[[], None],
        on_loss: Callable[[str], float],
    ) -> None:
        """Begin to connect.

        Args:
            connections: connections shared with other links: replicas may share a process.
            on_change: callback after a change of ``connection``.
            on_loss: callback with the replica's id when it was lost or cannot be reached; returns
                the seconds until the next attempt.
        """
        self.replica = replica
        self.connection: StageConnection | None = None
        self._connections = connections
        self._limits = limits
        self._on_change = on_change
        self._on_loss = on_loss
        self._running = asyncio.create_task(self._run(), name=f"replica {replica.id}")

    @property
    def is_open(self) -> bool:
        """Whether requests can be opened over it."""
        return self.connection is not None and self.connection.lost is None

    @property
    def status(self) -> StageStatus:
        connection = self.connection
        return StageStatus() if connection is None else connection.status(self.replica.stage)

    def close(self) -> None:
        """Stop watching; open streams continue."""
        self._running.cancel()

    async def _run(self) -> None:
        while True:
            try:
                connection = await self._connections.get(self.replica.address)
                await self._check(connection)
                self.connection = connection
                self._on_change()
                await self._watch(connection)
                reason = str(connection.lost)
            except AntiphonError as error:
                reason = error.message
            self.connection = None
            pause_s = self._on_loss(self.replica.id)
            logger.warning("replica %s: %s", self.replica.id, reason)
            await asyncio.sleep(pause_s)

    async def _watch(self, connection: StageConnection) -> None:
        """Return when the connection is lost, such as by missed pings; raises ReplicaLostError."""
        limits = self._limits
        while connection.lost is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.look_s):
                    await connection.closed.wait()
                return
            if (stalled_s := self.status.stalled_s()) > limits.stall_s:
                connection.close()
                raise ReplicaLostError(f"a step has taken {stalled_s:.0f} seconds")

    async def _check(self, connection: StageConnection) -> None:
        """Wait for the status of the replica; raises ReplicaLostError."""
        await connection.release("")  # of nothing: pushed statuses arrive before the answer
        if connection.status(self.replica.stage).stalled_s() > self._limits.stall_s:
            raise ReplicaLostError("a step still hangs")
