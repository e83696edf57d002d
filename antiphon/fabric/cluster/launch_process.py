"""Launcher of replicas as child processes of this host, restarted when they end."""

import asyncio
import logging
import math
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from antiphon.contracts.family import LoadContext, Ref
from antiphon.contracts.types import LoadProgress
from antiphon.errors import AntiphonError, ModelLoadError, ReplicaLostError
from antiphon.fabric.cluster.base import Heartbeat, Hosting, Replica, ReplicaAction
from antiphon.fabric.cluster.child_process import ChildProcess
from antiphon.fabric.cluster.controller import ClusterController
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.restarted_process import StageChild
from antiphon.fabric.cluster.stage_process import StageProcessPlan
from antiphon.fabric.cluster.state import ClusterState
from antiphon.fabric.wire.stage_client import StageConnection
from antiphon.telemetry.process_state import ProcessState
from antiphon.telemetry.stage_status import StageStatus

logger = logging.getLogger(__name__)

LIMITS = ClusterLimits(
    lease_s=60.0, dead_after_s=math.inf, restart_after_s=math.inf, drain_s=30.0, retry_s=1.0
)
"""Limits of a cluster whose parent process sees at once that a child has ended."""
_LOOK_S = 0.2
_MODULE = "antiphon.fabric.cluster.stage_process"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessClusterOptions:
    """Settings of all stage processes of a cluster.

    Attributes:
        folder: folder of sockets, which only this user may enter.
        stall_s: seconds of one step after which a process is restarted.
        progress: callback with the progress of loading; ``None``: the context's own.
    """

    builder: Ref
    folder: Path
    token: str
    environment: Mapping[str, str]
    log_level: str = "info"
    log_format: str = "text"
    stall_s: float = 120.0
    progress: LoadProgress | None = None


@dataclass(eq=False, slots=True)
class _Kept:
    name: str
    hosting: Hosting
    context: LoadContext
    key: "_ProcessKey"
    process: StageChild
    incarnation: str = ""
    replica: Replica | None = None
    failure: str | None = None
    keeping: "asyncio.Task[None] | None" = None
    retry: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def connection(self) -> StageConnection | None:
        """Connection to the process of the replica; ``None``: it has ended, or loads."""
        current, replica = self.process.current, self.replica
        is_its = current is not None and replica is not None and current.address == replica.address
        return current if is_its else None

    def beat(self) -> Heartbeat:
        status = StageStatus()
        if self.connection is not None and self.replica is not None:
            status = self.connection.status(self.replica.stage)
        return Heartbeat(
            name=self.name,
            hosting=self.hosting,
            process=self.incarnation,
            num_wanted=self.hosting.placement.num_replicas,
            replica=self.replica,
            status=status,
            failure=self.failure,
        )


class _ProcessKey(NamedTuple):
    """Properties that stages have in common if they share a process."""

    device: str
    memory_fraction: float | None
    environment: tuple[tuple[str, str], ...]
    number: int


class ProcessLauncher:
    """The `Launcher` of one host: a process for each device, and one more for each further replica
    on it. A replica whose process has ended is loaded again at once."""

    def __init__(
        self, options: ProcessClusterOptions, record: Callable[[Heartbeat], object]
    ) -> None:
        self._options = options
        self._record = record
        self._incarnations = count()
        self._kept: dict[str, _Kept] = {}
        self._processes: dict[_ProcessKey, StageChild] = {}
        self._stopping: dict[asyncio.Task[None], str] = {}
        self._checks: set[asyncio.Task[None]] = set()

    async def wait_until_reachable(self) -> None:
        """Return at once: children can always be started."""

    def beats(self) -> Sequence[Heartbeat]:
        return tuple(kept.beat() for kept in self._kept.values())

    async def launch(self, actions: Sequence[ReplicaAction]) -> None:
        for action in actions:
            if action.kind == "start":
                assert action.hosting is not None
                self._start(action.name, action.hosting, action.number)
            elif action.kind == "restart":
                self._kept[action.name].retry.set()
            else:
                kept = self._kept.pop(action.name)
                stopping = asyncio.create_task(self._stop(kept), name=f"stop {action.name}")
                self._stopping[stopping] = kept.hosting.id
                stopping.add_done_callback(self._stopping.pop)

    async def stopped(self, stage_id: str) -> None:
        """Wait for the replicas of a stage that are being stopped."""
        while tasks := [task for task, id in self._stopping.items() if id == stage_id]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        await self.launch([ReplicaAction("stop", name) for name in tuple(self._kept)])
        while self._stopping:
            await asyncio.wait(tuple(self._stopping))

    def processes(self) -> tuple[ProcessState, ...]:
        return tuple(process.state for process in self._processes.values())

    def check(self, replica_id: str) -> None:
        """End the process of a replica if it does not answer."""
        for kept in self._kept.values():
            if kept.replica is not None and kept.replica.id == replica_id:
                check = asyncio.create_task(kept.process.check())
                self._checks.add(check)
                check.add_done_callback(self._checks.discard)

    def _start(self, name: str, hosting: Hosting, number: int) -> None:
        context = hosting.placement.context_of(hosting.context, number)
        context = replace(context, progress=self._options.progress)
        # PyTorch bounds the memory of a process: engines with different bounds share none.
        device, fraction = context.device, context.memory_fraction
        key = _ProcessKey(device, fraction, hosting.placement.environment, number)
        process = self._process(key)
        process.num_users += 1
        kept = self._kept[name] = _Kept(name, hosting, context, key, process)
        kept.keeping = asyncio.create_task(self._keep_alive(kept), name=f"keep {name}")

    async def _keep_alive(self, kept: _Kept) -> None:
        """Load a replica, and again whenever it has been lost."""
        while True:
            kept.incarnation = f"{kept.name}.{next(self._incarnations)}"
            kept.failure, kept.replica = None, None
            self._record(kept.beat())
            try:
                connection = await kept.process.connection()
                stage = await connection.host(kept.hosting.specs, kept.context)
            except AntiphonError as error:
                kept.retry.clear()
                kept.failure = error.message
                if not isinstance(error, ModelLoadError):
                    stages = f"The stages {kept.hosting.name} could not be loaded"
                    kept.failure = f"{stages}: {error.message}"
                self._record(kept.beat())
                await kept.retry.wait()
                continue
            kept.replica = Replica(
                id=kept.incarnation,
                address=connection.address,
                stage=stage,
                host=socket.gethostname(),
                device=kept.context.device,
            )
            self._record(kept.beat())
            cause = await kept.process.broken(connection, stage)
            logger.error("%s is lost, and loaded again: %s", kept.name, cause)

    async def _stop(self, kept: _Kept) -> None:
        assert kept.keeping is not None
        kept.keeping.cancel()
        await asyncio.wait([kept.keeping])
        process = kept.process
        process.num_users -= 1
        if not process.num_users:
            del self._processes[kept.key]
            await process.close()
        elif kept.connection is not None and kept.replica is not None:
            with suppress(ReplicaLostError):
                await kept.connection.release(kept.replica.stage)

    def _process(self, key: _ProcessKey) -> StageChild:
        if key not in self._processes:
            name = f"engine-{key.device.replace(':', '')}" + (f"-{key.number}" * (key.number > 0))
            taken = {process.name for process in self._processes.values()}
            name = name if name not in taken else f"{name}-{len(taken)}"
            options = self._options

            async def launch() -> ChildProcess:
                address = f"unix:{options.folder}/{name}-{next(self._incarnations)}.sock"
                plan = StageProcessPlan(
                    name=name,
                    address=address,
                    token=options.token,
                    builder=options.builder,
                    log_level=options.log_level,
                    log_format=options.log_format,
                )
                variables = {**options.environment, **dict(key.environment)}
                return await ChildProcess.start(name, _MODULE, plan, environment=variables)

            self._processes[key] = StageChild(name, launch, options.token, options.stall_s)
        return self._processes[key]


class ProcessController(ClusterController):
    """The `Controller` of one host, whose calls return when what they end has ended."""

    _launcher: ProcessLauncher

    def __init__(self, options: ProcessClusterOptions, limits: ClusterLimits = LIMITS) -> None:
        numbers = count()
        state = ClusterState(
            lambda stage_id: f"{stage_id}.{next(numbers)}", now_s=time.monotonic(), limits=limits
        )
        super().__init__(state, ProcessLauncher(options, self.record))

    async def host(self, owner: str, hosting: Hosting) -> str:
        stage_id = await super().host(owner, hosting)
        await self.tick()
        return stage_id

    async def release(self, owner: str, stage_id: str) -> None:
        await super().release(owner, stage_id)
        await self.tick()
        await self._launcher.stopped(stage_id)

    async def report(self, stage_id: str, replica_id: str) -> None:
        self._launcher.check(replica_id)

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        await super().scale(stage_id, num_replicas)
        await self.tick()
        while self._state.is_draining(stage_id):
            await asyncio.sleep(_LOOK_S)
        await self._launcher.stopped(stage_id)

    async def processes(self) -> tuple[ProcessState, ...]:
        return self._launcher.processes()

    async def close(self) -> None:
        await super().close()
        await self._launcher.close()
