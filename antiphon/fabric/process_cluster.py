"""A cluster of one host: its stage processes are children of this process, which restarts them."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.contracts.family import LoadContext, Ref, StageSpec
from antiphon.contracts.types import LoadProgress
from antiphon.errors import AntiphonError, ModelLoadError
from antiphon.fabric.autoscaler import AutoscalerLimits
from antiphon.fabric.base import Placement
from antiphon.fabric.child_process import ChildProcess
from antiphon.fabric.cluster import Replica, StageSummary, check_number, unknown_stage
from antiphon.fabric.restarted_process import RestartedProcess
from antiphon.fabric.stage_process import StageProcessPlan
from antiphon.fabric.wire.stage_client import StageConnection
from antiphon.telemetry.process_state import ProcessState

logger = logging.getLogger(__name__)

DRAIN_S = 30.0
"""How long requests of a replica that is removed may go on."""
RETRY_S = 1.0
"""Before stages that could not be loaded again are tried once more."""
_LOOK_S = 0.2
_MODULE = "antiphon.fabric.stage_process"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessClusterOptions:
    """What a process cluster needs to know.

    Attributes:
        builder: of stages, in their processes; see `StageBuilder`.
        folder: of sockets; nobody else may enter it.
        token: that processes prove themselves with.
        environment: of all processes.
        log_level: as in the settings.
        log_format: as in the settings.
        stall_s: a stage whose step takes longer is restarted.
        progress: told of the progress of loading; ``None``: the context's own.
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
class _HostedStages:
    """The stages of one engine, and the replicas of it."""

    id: str
    specs: tuple[StageSpec, ...]
    context: LoadContext
    placement: Placement
    ready: "asyncio.Future[None]"
    num_wanted: int
    num_users: int = 0
    replicas: dict[int, Replica] = field(default_factory=dict)
    keepers: dict[int, "asyncio.Task[None]"] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def context_of(self, number: int) -> LoadContext:
        """Return the context that a replica is loaded with."""
        return self.placement.context_of(self.context, number)

    def put(self, number: int, replica: Replica | None) -> None:
        """Change what there is of a replica, and tell who watches."""
        if replica is None:
            self.replicas.pop(number, None)
        else:
            self.replicas[number] = replica
        self.changed.set()
        self.changed = asyncio.Event()


class _ProcessKey(NamedTuple):
    """The properties that stages have in common if they share a process."""

    device: str
    memory_fraction: float | None
    environment: tuple[tuple[str, str], ...]
    number: int


class ProcessCluster:
    """Starts a process for each device, and one more for each further replica on it."""

    def __init__(self, options: ProcessClusterOptions) -> None:
        """Begin without a process."""
        self._options = options
        self._numbers = count()
        self._incarnations = count()
        self._hosted: dict[str, _HostedStages] = {}
        self._processes: dict[_ProcessKey, RestartedProcess] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        hosted = self._find(specs, context, placement)
        hosted.num_users += 1
        async with AsyncExitStack() as unless_ready:
            unless_ready.push_async_callback(self.release, hosted.id)
            await asyncio.shield(hosted.ready)
            unless_ready.pop_all()
        return hosted.id

    async def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        hosted = self._hosted[stage_id]
        while True:
            changed = hosted.changed
            yield tuple(hosted.replicas[number] for number in sorted(hosted.replicas))
            await changed.wait()

    def report(self, stage_id: str, replica_id: str) -> None:
        hosted = self._hosted.get(stage_id)
        for number, replica in () if hosted is None else tuple(hosted.replicas.items()):
            if replica.id == replica_id and hosted is not None:
                self._begin(self._processes[_key(hosted, number)].check())

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        hosted = self._hosted.get(stage_id)
        if hosted is None:
            raise unknown_stage(stage_id)
        check_number(stage_id, num_replicas, AutoscalerLimits.of(hosted.placement))
        hosted.num_wanted = num_replicas
        leaving = [number for number in hosted.keepers if number >= num_replicas]
        for number in range(num_replicas):
            self._keep(hosted, number)
        await asyncio.gather(*(self._remove(hosted, number) for number in leaving))

    async def stages(self) -> tuple[StageSummary, ...]:
        """Return all stages."""
        return tuple(self._summary(hosted) for hosted in self._hosted.values())

    async def release(self, stage_id: str) -> None:
        hosted = self._hosted.get(stage_id)
        if hosted is None:
            return
        hosted.num_users -= 1
        if not hosted.num_users:
            del self._hosted[stage_id]
            await asyncio.shield(self._begin(self._unload(hosted)))  # to its end, whoever waits

    async def close(self) -> None:
        for hosted in tuple(self._hosted.values()):
            hosted.num_users = 1
            await self.release(hosted.id)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def processes(self) -> tuple[ProcessState, ...]:
        """Return the states of all stage processes."""
        return tuple(process.state for process in self._processes.values())

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begin what `close` waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _unload(self, hosted: _HostedStages) -> None:
        for number in tuple(hosted.keepers):
            await self._stop_keeping(hosted, number)
        if hosted.ready.done() and not hosted.ready.cancelled():
            hosted.ready.exception()  # retrieved: whoever hosted it has been told

    def _find(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> _HostedStages:
        wanted = tuple(specs), replace(context, progress=None), placement
        for hosted in self._hosted.values():
            if (hosted.specs, replace(hosted.context, progress=None), hosted.placement) == wanted:
                return hosted
        name = "+".join(spec.name for spec in specs)
        context = replace(context, progress=self._options.progress or context.progress)
        ready = asyncio.get_running_loop().create_future()
        id = f"{name}-{next(self._numbers)}"
        num_wanted = max(1, placement.num_replicas)
        hosted = _HostedStages(id, tuple(specs), context, placement, ready, num_wanted)
        self._hosted[id] = hosted
        for number in range(num_wanted):
            self._keep(hosted, number)
        return hosted

    def _summary(self, hosted: _HostedStages) -> StageSummary:
        return StageSummary(
            id=hosted.id,
            name="+".join(spec.name for spec in hosted.specs),
            num_wanted=hosted.num_wanted,
            num_front_ends=hosted.num_users,
            replicas=tuple(
                (replica, self._processes[_key(hosted, number)].status(replica.stage))
                for number, replica in sorted(hosted.replicas.items())
            ),
            num_loading=len(hosted.keepers.keys() - hosted.replicas.keys()),
            limits=AutoscalerLimits.of(hosted.placement),
        )

    def _keep(self, hosted: _HostedStages, number: int) -> None:
        """Have a replica from now on, if there is none of this number."""
        if number in hosted.keepers:
            return
        process = self._process(_key(hosted, number))
        process.num_users += 1
        keeping = self._keep_alive(hosted, number, process)
        hosted.keepers[number] = asyncio.create_task(keeping, name=f"keep {hosted.id}.{number}")

    async def _keep_alive(
        self, hosted: _HostedStages, number: int, process: RestartedProcess
    ) -> None:
        """Load a replica, and again whenever it has been lost."""
        while True:
            try:
                connection = await process.connection()
                stage = await connection.host(hosted.specs, hosted.context_of(number))
            except AntiphonError as error:
                if not hosted.ready.done():
                    hosted.ready.set_exception(_load_error(hosted, error))
                    return
                logger.error("%s could not be loaded again: %s", hosted.id, error.message)
                await asyncio.sleep(RETRY_S)
                continue
            hosted.put(number, self._replica(hosted, number, connection, stage))
            if not hosted.ready.done():
                hosted.ready.set_result(None)
            cause = await process.broken(stage)
            hosted.put(number, None)
            logger.error("%s is lost, and loaded again: %s", hosted.id, cause)

    def _replica(
        self, hosted: _HostedStages, number: int, connection: StageConnection, stage: str
    ) -> Replica:
        return Replica(
            id=f"{hosted.id}.{number}.{next(self._incarnations)}",
            address=connection.address,
            stage=stage,
            host=socket.gethostname(),
            device=hosted.context_of(number).device,
        )

    async def _remove(self, hosted: _HostedStages, number: int) -> None:
        """Let the requests of a replica end, then stop it."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + DRAIN_S
        while (replica := hosted.replicas.get(number)) is not None and loop.time() < until_s:
            if not replica.is_draining:
                hosted.put(number, replace(replica, is_draining=True))
            connection = await self._processes[_key(hosted, number)].connection()
            await asyncio.sleep(_LOOK_S)
            if not connection.status(replica.stage).num_open:
                break
        await self._stop_keeping(hosted, number)

    async def _stop_keeping(self, hosted: _HostedStages, number: int) -> None:
        keeper = hosted.keepers.pop(number, None)
        if keeper is None:
            return
        keeper.cancel()
        await asyncio.wait([keeper])
        replica = hosted.replicas.get(number)
        hosted.put(number, None)
        key = _key(hosted, number)
        process = self._processes[key]
        process.num_users -= 1
        if not process.num_users:
            del self._processes[key]
            await process.stop()
        elif replica is not None:
            await process.release(replica.stage)

    def _process(self, key: _ProcessKey) -> RestartedProcess:
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

            self._processes[key] = RestartedProcess(name, launch, options.token, options.stall_s)
        return self._processes[key]


def _key(hosted: _HostedStages, number: int) -> _ProcessKey:
    """Return the key of a replica's process: replicas 0 on one device share a process.

    PyTorch bounds the memory of a process, so that engines with different bounds have processes of
    their own.
    """
    context = hosted.context_of(number)
    return _ProcessKey(
        context.device, context.memory_fraction, hosted.placement.environment, number
    )


def _load_error(hosted: _HostedStages, error: AntiphonError) -> AntiphonError:
    if isinstance(error, ModelLoadError):
        return error
    return ModelLoadError(f"The stages {hosted.id} could not be loaded: {error.message}")
