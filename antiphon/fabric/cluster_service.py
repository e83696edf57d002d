"""A cluster served to other processes, so that several front ends share its stages."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from antiphon.fabric.base import Placement
from antiphon.fabric.cluster import OwnCluster, Replica
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import RpcServer, connect
from antiphon.models.spec import LoadContext, StageSpec
from antiphon.telemetry.process_state import ProcessState

logger = logging.getLogger(__name__)

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


@dataclass(slots=True)
class _Hosting:
    """What this process has hosted.

    Attributes:
        arguments: of the call.
        id: by which the cluster knows the stages now.
        num_users: times that it was hosted and not released.
    """

    arguments: tuple[Any, ...]
    id: str
    num_users: int = 0


class ClusterClient:
    """The `Cluster` of another process.

    A connection that was lost, because one of the two processes has stood still for too long, is
    made again when the cluster is next needed. What was hosted over it is hosted again, by another
    id if the other process has unloaded it; the ids that were returned stay as they are.
    """

    def __init__(self, peer: RpcPeer, reconnect: Callable[[], Awaitable[RpcPeer]]) -> None:
        """Use a connection to a `ClusterServer`; see `connect`."""
        self._peer = peer
        self._reconnect = reconnect
        self._hosted: dict[str, _Hosting] = {}
        self._turn = asyncio.Lock()
        self._is_closed = False

    @classmethod
    async def connect(cls, address: str, token: str) -> Self:
        """Connect to a `ClusterServer`.

        Raises:
            ReplicaLostError: nobody listens there, or the token is wrong.
        """
        return cls(await connect(address, token), partial(connect, address, token))

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        sent = replace(context, progress=None)  # the cluster shows it
        arguments = tuple(specs), sent, placement
        found: str = await (await self._open_peer()).call("host", *arguments)
        same = (stage_id for stage_id, each in self._hosted.items() if each.id == found)
        stage_id = next(same, found)
        self._hosted.setdefault(stage_id, _Hosting(arguments, found)).num_users += 1
        return stage_id

    async def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        peer = await self._open_peer()
        async with aclosing(peer.stream("watch", self._id_of(stage_id))) as changes:
            async for replicas in changes:
                yield replicas

    def report(self, stage_id: str, replica_id: str) -> None:
        self._peer.notify("report", self._id_of(stage_id), replica_id)

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        await (await self._open_peer()).call("scale", self._id_of(stage_id), num_replicas)

    async def release(self, stage_id: str) -> None:
        peer, id = await self._open_peer(), self._id_of(stage_id)
        if (hosting := self._hosted.get(stage_id)) is not None:
            hosting.num_users -= 1
            if not hosting.num_users:
                del self._hosted[stage_id]
        await peer.call("release", id)

    async def processes(self) -> tuple[ProcessState, ...]:
        """Return the states of all processes of the server, front ends too."""
        states: tuple[ProcessState, ...] = await (await self._open_peer()).call("processes")
        return states

    async def close(self) -> None:
        self._is_closed = True
        self._peer.close()

    def _id_of(self, stage_id: str) -> str:
        hosting = self._hosted.get(stage_id)
        return stage_id if hosting is None else hosting.id

    async def _open_peer(self) -> RpcPeer:
        """Return a connection that is open.

        Raises:
            ReplicaLostError: there is none, and none can be made.
            ModelLoadError: what was hosted cannot be loaded again.
        """
        async with self._turn:
            if self._peer.lost is None or self._is_closed:
                return self._peer
            peer = await self._reconnect()
            try:
                for each in tuple(self._hosted.values()):
                    for _ in range(each.num_users):
                        each.id = await peer.call("host", *each.arguments)
                self._peer = peer
            finally:
                if self._peer is not peer:
                    peer.close()
            logger.warning("the cluster was lost, and is connected again")
            return peer
