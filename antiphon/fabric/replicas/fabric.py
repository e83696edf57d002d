"""Fabric over the replicas of a cluster: load-balanced, with streams that survive a replica."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.prompt import Piece
from antiphon.errors import InvalidRequestError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.client import ClusterClient
from antiphon.fabric.replicas.balancer import QuarantineLimits
from antiphon.fabric.replicas.group import ReplicaGroup
from antiphon.fabric.replicas.link import ReplicaLimits
from antiphon.fabric.replicas.stream import ResilientStream
from antiphon.fabric.wire.stage_client import StageConnections
from antiphon.stages.base import StageHandle, StageRequest, StageStream
from antiphon.telemetry.stage_status import StageStatus


def _ignore(_retries: int, _migrations: int) -> None:
    """Count nowhere else."""


class ReplicaFabric:
    """Hosts stages in a cluster, and opens requests at their replicas.

    Attributes:
        num_retries: number of replicas that failed before the first item of a stream.
        num_migrations: number of replicas that have resumed a stream.
        observe: callback with both numbers of each moved stream, when it ends.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        connections: StageConnections,
        *,
        limits: ReplicaLimits | None = None,
        quarantine: QuarantineLimits | None = None,
    ) -> None:
        """Begin without stages; cluster and connections are closed with the fabric."""
        self.num_retries = self.num_migrations = 0
        self.observe: Callable[[int, int], None] = _ignore
        self._cluster = cluster
        self._connections = connections
        self._limits = limits or ReplicaLimits()
        self._quarantine = quarantine
        self._groups: dict[StageHandle, ReplicaGroup] = {}
        self._streams: dict[str, ResilientStream] = {}
        self._ended = asyncio.Event()

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> StageHandle:
        handle = StageHandle(await self._cluster.host(specs, context, placement))
        if (group := self._groups.get(handle)) is None:
            group = self._groups[handle] = ReplicaGroup(
                handle.id, self._cluster, self._connections, self._limits, self._quarantine
            )
        group.num_users += 1
        ends_s = asyncio.get_running_loop().time() + self._limits.wait_s
        while not group.reachable and (left_s := ends_s - asyncio.get_running_loop().time()) > 0:
            await group.wait(left_s)
        return handle

    def open(self, handle: StageHandle, request: StageRequest) -> StageStream:
        stages = [(each, self._groups[each]) for each in (*request.upstream, handle)]
        return ResilientStream(request, stages, self._limits).items(self._tracked)

    @contextmanager
    def _tracked(self, stream: ResilientStream) -> Generator[None, None, None]:
        """Track a stream while it is open; raises InvalidRequestError."""
        id = stream.request.id
        if id in self._streams:
            raise InvalidRequestError(f"A request '{id}' is open already.", param="id")
        self._streams[id] = stream
        try:
            yield
        finally:
            del self._streams[id]
            self.num_retries += stream.num_retries
            self.num_migrations += stream.num_migrations
            if stream.num_retries or stream.num_migrations:
                self.observe(stream.num_retries, stream.num_migrations)
            self._ended.set()

    def append(self, handle: StageHandle, request_id: str, piece: Piece) -> None:
        if (stream := self._streams.get(request_id)) is not None:
            stream.append(handle, piece)

    def abort(self, handle: StageHandle, request_id: str) -> None:
        if (stream := self._streams.get(request_id)) is not None:
            stream.abort(handle)

    def status(self, handle: StageHandle) -> StageStatus:
        return self._groups[handle].status

    @property
    def num_open(self) -> int:
        """Number of requests that were opened here; replicas may serve others too."""
        return len(self._streams)

    async def drain(self) -> None:
        while self._streams:
            self._ended.clear()
            await self._ended.wait()

    async def release(self, handle: StageHandle) -> None:
        group = self._groups[handle]
        group.num_users -= 1
        if not group.num_users:
            del self._groups[handle]
            group.close()
            await self._cluster.release(handle.id)

    async def close(self) -> None:
        """Release everything; open streams end."""
        for group in self._groups.values():
            group.close()
        self._groups.clear()
        self._connections.close()
        await self._cluster.close()
