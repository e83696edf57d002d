"""A cluster served to other processes, so that several front ends share its stages."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Self

from antiphon.fabric.base import Placement
from antiphon.fabric.cluster import OwnCluster, Replica
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import RpcServer, connect
from antiphon.models.spec import LoadContext, StageSpec
from antiphon.telemetry.process_state import ProcessState

OtherProcesses = Callable[[], Sequence[ProcessState]]


class ClusterServer:
    """Serves a cluster; what a process has hosted is released when its connection ends."""

    def __init__(self, cluster: OwnCluster, token: str, others: OtherProcesses = tuple) -> None:
        """Begin without an address.

        Args:
            cluster: that is served.
            token: what clients must know.
            others: returns the states of the server's other processes.
        """
        self._cluster = cluster
        self._others = others
        self._server = RpcServer(self._welcome, token)
        self._releases: set[asyncio.Task[None]] = set()

    async def serve(self, address: str) -> str:
        """Listen at an address; see `RpcServer.serve`."""
        return await self._server.serve(address)

    async def close(self) -> None:
        """End every connection, and give back what was hosted over them."""
        await self._server.close()
        while self._releases:
            await asyncio.wait(self._releases)

    def _welcome(self, peer: RpcPeer) -> RpcHandlers:
        client = _Client(self._cluster)

        def on_lost() -> None:
            release = asyncio.create_task(client.release_all(), name="release stages")
            self._releases.add(release)
            release.add_done_callback(self._releases.discard)

        return RpcHandlers(
            calls={
                "host": client.host,
                "scale": self._cluster.scale,
                "release": client.release,
                "processes": self._processes,
            },
            streams={"watch": self._cluster.watch},
            notices={"report": self._cluster.report},
            on_lost=on_lost,
        )

    async def _processes(self) -> tuple[ProcessState, ...]:
        return (*self._others(), *self._cluster.processes())


class _Client:
    """What one connected process has hosted."""

    def __init__(self, cluster: OwnCluster) -> None:
        self._cluster = cluster
        self._num_hosted: Counter[str] = Counter()

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        stage_id = await self._cluster.host(specs, context, placement)
        self._num_hosted[stage_id] += 1
        return stage_id

    async def release(self, stage_id: str) -> None:
        if self._num_hosted[stage_id]:
            self._num_hosted[stage_id] -= 1
            await self._cluster.release(stage_id)

    async def release_all(self) -> None:
        for stage_id in tuple(self._num_hosted.elements()):
            await self.release(stage_id)


class ClusterClient:
    """The `Cluster` of another process."""

    def __init__(self, peer: RpcPeer) -> None:
        """Use a connection to a `ClusterServer`; see `connect`."""
        self._peer = peer

    @classmethod
    async def connect(cls, address: str, token: str) -> Self:
        """Connect to a `ClusterServer`.

        Raises:
            ReplicaLostError: nobody listens there, or the token is wrong.
        """
        return cls(await connect(address, token))

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        sent = replace(context, progress=None)  # the cluster shows it
        stage_id: str = await self._peer.call("host", tuple(specs), sent, placement)
        return stage_id

    def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        return self._peer.stream("watch", stage_id)

    def report(self, stage_id: str, replica_id: str) -> None:
        self._peer.notify("report", stage_id, replica_id)

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        await self._peer.call("scale", stage_id, num_replicas)

    async def release(self, stage_id: str) -> None:
        await self._peer.call("release", stage_id)

    async def processes(self) -> tuple[ProcessState, ...]:
        """Return the states of all processes of the server, front ends too."""
        states: tuple[ProcessState, ...] = await self._peer.call("processes")
        return states

    async def close(self) -> None:
        self._peer.close()
