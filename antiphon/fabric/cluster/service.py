"""RPC of a cluster, by which several front ends share its stages.

The stages of a front end are kept for its successor when it is restarted.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import isinf
from typing import Any, Self

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import OwnCluster, Replica
from antiphon.fabric.wire.frames import WireLimits
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import RpcServer, connect
from antiphon.telemetry.process_state import ProcessState

logger = logging.getLogger(__name__)

OtherProcesses = Callable[[], Sequence[ProcessState]]


def _ignore(pid: int) -> None:
    """Do nothing."""


class ClusterServer:
    """Serves a cluster to the front ends of one parent.

    Stages that a process has hosted are kept when its connection ends, until another process hosts
    them in its place, or for ``kept_s``. If that is infinite, they are kept when it releases them
    too.
    """

    def __init__(
        self,
        cluster: OwnCluster,
        token: str,
        others: OtherProcesses = tuple,
        *,
        kept_s: float = 0.0,
        on_silent: Callable[[int], None] = _ignore,
        limits: WireLimits | None = None,
    ) -> None:
        """Begin without an address.

        Args:
            cluster: cluster that is served.
            token: token that clients must prove to know.
            others: callback that returns the states of the server's other processes.
            kept_s: seconds after which stages of a lost process are released; may be infinite.
            on_silent: callback with the id of a process that no longer answers.
        """
        self._cluster = cluster
        self._others = others
        self._kept_s = kept_s
        self._on_silent = on_silent
        self._server = RpcServer(self._welcome, token, limits=limits)
        self._releases: set[asyncio.Task[None]] = set()
        self._kept: dict[str, list[asyncio.Event]] = {}

    async def serve(self, address: str) -> str:
        """Listen at an address; see `RpcServer.serve`."""
        return await self._server.serve(address)

    async def close(self) -> None:
        """End every connection, and give back what was hosted over them."""
        await self._server.close()
        self._kept_s = 0.0
        for stage_id in tuple(self._kept):
            while self._take_over(stage_id):
                pass
        while self._releases:
            await asyncio.wait(self._releases)

    def _welcome(self, peer: RpcPeer) -> RpcHandlers:
        client = _Client(self._cluster, self._take_over)

        async def release(stage_id: str) -> None:
            if not client.takes_back(stage_id):
                return
            if isinf(self._kept_s):  # the client is restarting: nothing is unloaded while we serve
                self._keep(stage_id)
            else:
                await self._cluster.release(stage_id)

        def on_lost() -> None:
            for stage_id in client.num_hosted.elements():
                self._keep(stage_id)
            if peer.connection.is_silent and client.pid:
                self._on_silent(client.pid)

        return RpcHandlers(
            calls={
                "host": client.host,
                "scale": self._cluster.scale,
                "release": release,
                "processes": self._processes,
            },
            streams={"watch": self._cluster.watch},
            notices={"introduce": client.introduce, "report": self._cluster.report},
            on_lost=on_lost,
        )

    def _keep(self, stage_id: str) -> None:
        release = asyncio.create_task(self._release_later(stage_id), name="release stages")
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)

    async def _release_later(self, stage_id: str) -> None:
        """Release stages of a lost process once another process has taken them over, or is late."""
        taken = asyncio.Event()
        keeping = self._kept.setdefault(stage_id, [])
        keeping.append(taken)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if isinf(self._kept_s) else self._kept_s):
                await taken.wait()
        if taken in keeping:
            keeping.remove(taken)
        await self._cluster.release(stage_id)

    def _take_over(self, stage_id: str) -> bool:
        """Hand over the stages of one lost process; return whether there was one."""
        keeping = self._kept.get(stage_id)
        if not keeping:
            return False
        keeping.pop().set()
        return True

    async def _processes(self) -> tuple[ProcessState, ...]:
        return (*self._others(), *self._cluster.processes())


class _Client:
    """One connected process.

    Attributes:
        pid: process id; 0 until it has introduced itself.
        num_hosted: number of unreleased `host` calls, by the id of the stages.
    """

    def __init__(self, cluster: OwnCluster, take_over: Callable[[str], object]) -> None:
        self.pid = 0
        self.num_hosted: Counter[str] = Counter()
        self._cluster = cluster
        self._take_over = take_over

    def introduce(self, pid: int) -> None:
        self.pid = pid

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        stage_id = await self._cluster.host(specs, context, placement)
        self.num_hosted[stage_id] += 1
        self._take_over(stage_id)
        return stage_id

    def takes_back(self, stage_id: str) -> bool:
        """Count a release; return whether the process has hosted the stages."""
        if not self.num_hosted[stage_id]:
            return False
        self.num_hosted[stage_id] -= 1
        return True


@dataclass(slots=True)
class _Hosting:
    """Stages that this process has hosted.

    Attributes:
        id: current id of the stages in the cluster.
        num_users: number of unreleased `host` calls.
    """

    arguments: tuple[Any, ...]
    id: str
    num_users: int = 0


async def _introduced(address: str, token: str) -> RpcPeer:
    """Return a connection to a `ClusterServer`, with this process introduced."""
    peer = await connect(address, token)
    peer.notify("introduce", os.getpid())
    return peer


class ClusterClient:
    """The `Cluster` of another process.

    A lost connection, such as after one of the processes was suspended, is made again when the
    cluster is next needed. Its stages are hosted again, under another id if they were unloaded; the
    ids that were returned stay valid.
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
            ReplicaLostError: no process listens there, or the token is wrong.
        """
        open_peer = partial(_introduced, address, token)
        return cls(await open_peer(), open_peer)

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        sent = replace(context, progress=None)  # the cluster reports it
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
        """Return the states of all processes of the server, front ends included."""
        states: tuple[ProcessState, ...] = await (await self._open_peer()).call("processes")
        return states

    async def close(self) -> None:
        self._is_closed = True
        self._peer.close()

    def _id_of(self, stage_id: str) -> str:
        hosting = self._hosted.get(stage_id)
        return stage_id if hosting is None else hosting.id

    async def _open_peer(self) -> RpcPeer:
        """Return an open connection.

        Raises:
            ReplicaLostError: no connection can be made.
            ModelLoadError: hosted stages cannot be loaded again.
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
            logger.warning("reconnected to the cluster")
            return peer
