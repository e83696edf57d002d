"""A fabric of one replica for each engine, which it opens all requests at."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from antiphon.errors import UnavailableError
from antiphon.fabric.base import Placement, StageHandle, StageRequest, StageStream
from antiphon.fabric.cluster import Cluster, Replica
from antiphon.fabric.wire.stage_client import StageConnections, remote_handle
from antiphon.models.base import Piece
from antiphon.models.spec import LoadContext, StageSpec
from antiphon.telemetry.stage_status import StageStatus


class FirstReplicaFabric:
    """Opens requests at the first replica of a cluster's stages."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self._cluster = cluster
        self._connections = StageConnections(token)
        self._replicas: dict[StageHandle, tuple[Replica, ...]] = {}
        self._watches: dict[StageHandle, asyncio.Task[None]] = {}
        self._num_open = 0

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> StageHandle:
        handle = StageHandle(await self._cluster.host(specs, context, placement))
        watching = asyncio.create_task(self._watch(handle))
        self._watches[handle] = watching
        while not self._replicas.get(handle):
            await asyncio.sleep(0.01)
        return handle

    async def _watch(self, handle: StageHandle) -> None:
        async with aclosing(self._cluster.watch(handle.id)) as changes:
            async for replicas in changes:
                for each in replicas:
                    with suppress(UnavailableError):
                        await self._connections.get(each.address)
                self._replicas[handle] = replicas

    def _first(self, handle: StageHandle) -> Replica:
        for replica in self._replicas[handle]:
            return replica
        raise UnavailableError("The model is being restarted.", retry_after_s=1.0)

    async def open(self, handle: StageHandle, request: StageRequest) -> StageStream:
        upstream = tuple(
            remote_handle(each.address, each.stage) for each in map(self._first, request.upstream)
        )
        replica = self._first(handle)
        connection = await self._connections.get(replica.address)
        self._num_open += 1
        try:
            sent = replace(request, upstream=upstream)
            async with aclosing(connection.open(replica.stage, sent)) as items:
                async for item in items:
                    yield item
        finally:
            self._num_open -= 1

    def append(self, handle: StageHandle, request_id: str, piece: Piece) -> None:
        replica = self._first(handle)
        connection = self._connections._connections[replica.address]
        connection.append(replica.stage, request_id, piece)

    def abort(self, handle: StageHandle, request_id: str) -> None:
        replica = self._first(handle)
        self._connections._connections[replica.address].abort(replica.stage, request_id)

    def status(self, handle: StageHandle) -> StageStatus:
        for replica in self._replicas.get(handle, ()):
            connection = self._connections._connections.get(replica.address)
            if connection is not None:
                return connection.status(replica.stage)
        return StageStatus()

    @property
    def num_open(self) -> int:
        return self._num_open

    async def drain(self) -> None:
        while self._num_open:
            await asyncio.sleep(0.02)

    async def release(self, handle: StageHandle) -> None:
        self._watches.pop(handle).cancel()
        await self._cluster.release(handle.id)

    async def close(self) -> None:
        for watching in self._watches.values():
            watching.cancel()
        self._connections.close()
        await self._cluster.close()
