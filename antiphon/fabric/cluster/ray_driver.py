"""Ray driver of a server: a child process, so that the server outlives the end of Ray."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from antiphon.concurrency import cancel_and_wait
from antiphon.config.sources import process_environment
from antiphon.contracts.family import LoadContext, Ref, StageSpec
from antiphon.errors import AntiphonError, ReplicaLostError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.cluster.child_process import ChildProcess
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.restarted_process import STOP_S, Backoff
from antiphon.fabric.cluster.service import ClusterClient
from antiphon.fabric.wire.rpc import RpcPeer
from antiphon.fabric.wire.sockets import WireTls, connect
from antiphon.telemetry.process_state import ProcessState

logger = logging.getLogger(__name__)

OUTLIVE_HEAD = {"RAY_gcs_rpc_server_reconnect_timeout_s": "86400"}
"""Variables of Ray's processes. By default each of them exits when Ray's head has not answered for
60 s; a process reads the variable when it starts, and workers inherit that of their raylet."""
_MODULE = "antiphon.fabric.cluster.ray_driver_process"
_NAME = "ray-driver"
_RETRY_S = 1.0
_RELEASE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RayDriverPlan:
    """Start data of a driver process.

    Attributes:
        build: the `StageBuilder` of the replicas.
        folder: private folder of its socket.
        namespace: Ray's namespace.
        limits: limits of the controller.
        address: address of the Ray cluster; ``None``: see `connect_ray`.
        token: token of the cluster's connections, if this driver begins the cluster.
        tls: TLS of the cluster's connections, if this driver begins the cluster.
        is_restart: whether an earlier driver was connected: an unreachable cluster is awaited.
        number: number of the driver, from 0.
        log_level: least level that is logged, as in `ServerSettings`.
        log_format: format of log lines, as in `ServerSettings`.
    """

    build: Ref
    folder: Path
    namespace: str
    limits: ClusterLimits
    address: str | None
    token: str = field(repr=False)
    tls: WireTls | None = None
    is_restart: bool = False
    number: int = 0
    log_level: str = "info"
    log_format: str = "text"

    @property
    def socket(self) -> str:
        """Address at which the driver serves its cluster."""
        return f"unix:{self.folder}/{_NAME}-{self.number}.sock"


@dataclass(frozen=True, slots=True)
class DriverStarted:
    """Report of a connected driver.

    Attributes:
        address: address of the Ray cluster; ``None``: the driver has begun it, and it ends with
            the driver.
        token: token of the cluster's connections.
    """

    address: str | None
    token: str = field(repr=False)


class RayDriver:
    """The `Cluster` of a server on Ray, through a driver process that is restarted when it ends.

    Ray ends a driver with its raylet. Streams do not pass through the driver: while there is none,
    the replicas that are known serve on. The next driver hosts the same stages again.
    """

    def __init__(self, plan: RayDriverPlan) -> None:
        """Use `open`."""
        self._plan = plan
        self._backoff = Backoff()
        self._child: ChildProcess | None = None
        self._releases: set[asyncio.Task[None]] = set()
        self._client: ClusterClient

    @classmethod
    async def open(cls, plan: RayDriverPlan) -> Self:
        """Start a driver, and connect to it.

        Raises:
            SettingsError: there is no such Ray cluster.
        """
        driver = cls(plan)
        async with AsyncExitStack() as unless_connected:
            unless_connected.push_async_callback(driver._stop)
            driver._client = ClusterClient(await driver._connect(), driver._connect)
            unless_connected.pop_all()
        return driver

    @property
    def token(self) -> str:
        """Token of the cluster's connections."""
        return self._plan.token

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        while True:
            try:
                return await self._client.host(specs, context, placement)
            except ReplicaLostError as error:
                logger.warning("the Ray driver was lost while it placed stages: %s", error.message)
                await asyncio.sleep(_RETRY_S)

    def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        return self._client.watch(stage_id)

    def report(self, stage_id: str, replica_id: str) -> None:
        self._client.report(stage_id, replica_id)

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        await self._client.scale(stage_id, num_replicas)

    async def release(self, stage_id: str) -> None:
        releasing = asyncio.create_task(self._release(stage_id), name=f"release {stage_id}")
        self._releases.add(releasing)
        releasing.add_done_callback(self._releases.discard)
        await asyncio.wait((releasing,), timeout=_RELEASE_S)  # else later, once there is a driver

    def processes(self) -> tuple[ProcessState, ...]:
        """Return the driver's state; replicas are processes of other hosts."""
        child = self._child
        is_up = child is not None and child.is_running
        pid = 0 if child is None else child.pid
        return (ProcessState(_NAME, pid, is_up, self._backoff.num_restarts),)

    async def close(self) -> None:
        await cancel_and_wait(*self._releases)
        await self._client.close()
        await self._stop()

    async def _release(self, stage_id: str) -> None:
        while True:
            try:
                return await self._client.release(stage_id)
            except AntiphonError as error:
                logger.warning("cannot release '%s' yet: %s", stage_id, error.message)
            await asyncio.sleep(_RETRY_S)

    async def _stop(self) -> None:
        if self._child is not None:
            await self._child.stop(STOP_S)  # it gives back what it has hosted

    async def _connect(self) -> RpcPeer:
        """Return a connection to the driver; start one if none runs.

        Raises:
            SettingsError: there is no such Ray cluster.
            EngineError: the driver has ended before it was connected.
            ReplicaLostError: it has ended since.
        """
        if self._child is None or not self._child.is_running:
            await self._backoff.wait()
            plan = self._plan = replace(self._plan, number=self._backoff.num_starts)
            # A cluster of its own cannot get its head back: it shall end, to be begun anew.
            environment = {} if plan.address is None else OUTLIVE_HEAD
            self._child = await ChildProcess.start(
                _NAME, _MODULE, plan, environment={**environment, **process_environment()}
            )
        news: DriverStarted | AntiphonError = await self._child.reported()
        if isinstance(news, AntiphonError):
            raise news
        self._plan = replace(self._plan, address=news.address, token=news.token, is_restart=True)
        return await connect(self._plan.socket, news.token)
