"""A cluster whose replicas are servers of this process, which can be killed at any moment."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from pathlib import Path

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.cluster.client import ClusterClient
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.replicas.balancer import QuarantineLimits
from antiphon.fabric.replicas.fabric import ReplicaFabric
from antiphon.fabric.replicas.link import ReplicaLimits
from antiphon.fabric.wire.stage_client import StageConnections
from antiphon.fabric.wire.stage_server import StageServer
from antiphon.stages.base import StageHandle
from antiphon.stages.build import build_stage
from tests.loops import until

TOKEN = "token of the tests"
QUARANTINE = QuarantineLimits(first_s=0.01, longest_s=0.1)
LIMITS = ReplicaLimits(look_s=0.2, max_losses=1000)
UNLIMITED = AdmissionLimits(max_wait_s=inf, max_load=inf)
"""For what is to be admitted however busy the machine is."""


@dataclass(slots=True)
class Process:
    """What would be a process: loaded stages, and the server of them."""

    replica: Replica
    stages: LocalFabric
    server: StageServer


@dataclass(slots=True)
class HostedReplicas:
    processes: dict[str, Process] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class InProcessCluster(ClusterClient):
    """A cluster; what is killed is replaced by a replica with another id and address."""

    def __init__(self, folder: Path, num_replicas: int) -> None:
        self.hosted: dict[str, HostedReplicas] = {}
        self.reported: list[str] = []
        self.num_killed = 0
        self._folder = folder
        self._num_replicas = num_replicas
        self._numbers = count()
        self._tasks: set[asyncio.Task[None]] = set()

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        stage_id = f"{'+'.join(spec.name for spec in specs)}.{next(self._numbers)}"
        self.hosted[stage_id] = HostedReplicas()
        for _ in range(self._num_replicas):
            stages = LocalFabric(build_stage)
            handle = await stages.host(specs, context, placement)
            await self.serve(stage_id, stages, handle.id)
        return stage_id

    async def serve(self, stage_id: str, stages: LocalFabric, stage: str) -> Process:
        """Serve loaded stages as a replica that there was not before."""
        number = next(self._numbers)
        server = StageServer(stages, TOKEN)
        address = await server.serve(f"unix:{self._folder}/wire/{number}")
        process = Process(Replica(f"replica-{number}", address, stage), stages, server)
        self.hosted[stage_id].processes[process.replica.id] = process
        self._change(stage_id)
        return process

    async def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        hosted = self.hosted[stage_id]
        while True:
            changed = hosted.changed
            yield tuple(each.replica for each in hosted.processes.values())
            await changed.wait()

    def report(self, stage_id: str, replica_id: str) -> None:
        self.reported.append(replica_id)

    def kill(self, stage_id: str, replica_id: str, *, is_replaced: bool = True) -> None:
        """Cut all connections of a replica; another one takes its place in a while."""
        process = self.hosted[stage_id].processes.pop(replica_id, None)
        if process is None:
            return
        self.num_killed += 1
        self.cut(process)
        task = asyncio.create_task(self._replace(stage_id, process, is_replaced=is_replaced))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cut(self, process: Process) -> None:
        """Cut all connections; it still listens."""
        for peer in tuple(process.server._server.peers):
            peer.close()

    def drain(self, stage_id: str, replica_id: str) -> None:
        """Give a replica no further requests."""
        process = self.hosted[stage_id].processes[replica_id]
        process.replica = replace(process.replica, is_draining=True)
        self._change(stage_id)

    async def release(self, stage_id: str) -> None:
        while self._tasks:  # what takes a place is served, and released with the others
            await asyncio.wait(tuple(self._tasks))
        hosted = self.hosted.pop(stage_id)
        for process in hosted.processes.values():
            await process.server.close()
            await process.stages.release(StageHandle(process.replica.stage))

    async def close(self) -> None:
        for stage_id in tuple(self.hosted):
            await self.release(stage_id)

    async def _replace(self, stage_id: str, process: Process, *, is_replaced: bool) -> None:
        Path(process.replica.address.removeprefix("unix:")).unlink()
        await asyncio.sleep(0.01)  # Python 3.11 leaks what it has accepted just before a close
        self.cut(process)
        await process.server.close()
        if not is_replaced:
            await process.stages.release(StageHandle(process.replica.stage))
            self._change(stage_id)
            return
        await self.serve(stage_id, process.stages, process.replica.stage)

    def _change(self, stage_id: str) -> None:
        hosted = self.hosted[stage_id]
        hosted.changed.set()
        hosted.changed = asyncio.Event()


@asynccontextmanager
async def replicated(
    folder: Path, num_replicas: int = 2, limits: ReplicaLimits = LIMITS
) -> AsyncGenerator[tuple[ReplicaFabric, InProcessCluster], None]:
    """Give a fabric over replicas; everything is free in the end."""
    cluster = InProcessCluster(folder, num_replicas)
    fabric = ReplicaFabric(cluster, StageConnections(TOKEN), limits=limits, quarantine=QUARANTINE)
    try:
        yield fabric, cluster
        assert fabric.num_open == 0
        stages = [p.stages for h in cluster.hosted.values() for p in h.processes.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10.0):
                await until(lambda: not any(each.num_open for each in stages))
        assert not any(each.num_open for each in stages), "a replica still holds a request"
    finally:
        await fabric.close()
