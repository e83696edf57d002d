"""A link to a replica ends when its owner closes it, whatever happens at the same moment."""

import asyncio
from typing import cast

import pytest

from antiphon.errors import ReplicaLostError
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.replicas.link import ReplicaLimits, ReplicaLink
from antiphon.fabric.wire.stage_client import StageConnection, StageConnections
from antiphon.telemetry.stage_status import StageStatus


class Connection:
    """One that works until it is lost."""

    def __init__(self) -> None:
        self.lost: ReplicaLostError | None = None
        self.closed = asyncio.Event()

    def lose(self) -> None:
        self.lost = ReplicaLostError("its process was killed")
        self.closed.set()

    def status(self, stage: str) -> StageStatus:
        return StageStatus()

    async def release(self, stage: str) -> None:
        """Have nothing to release."""


class Connections:
    """Give the same connection as long as it is open."""

    def __init__(self) -> None:
        self.only = Connection()

    async def get(self, address: str) -> StageConnection:
        if self.only.lost is not None:
            raise self.only.lost
        return cast(StageConnection, self.only)


@pytest.mark.parametrize("num_turns", range(6))
async def test_a_link_that_is_closed_as_its_connection_is_lost_ends(num_turns: int) -> None:
    """Both have one cause: a process that dies, which the cluster says and the connection shows."""
    before = asyncio.all_tasks()
    connections = Connections()
    link = ReplicaLink(
        Replica("replica", "unix:gone", "stage"),
        cast(StageConnections, connections),
        ReplicaLimits(),
        on_change=lambda: None,
        on_loss=lambda id: 0.0,
    )
    while link.connection is None:
        await asyncio.sleep(0)
    connections.only.lose()
    for _ in range(num_turns):
        await asyncio.sleep(0)
    link.close()
    for _ in range(20):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
