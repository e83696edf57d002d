"""Ray driver of a server: a child process, so that the server outlives the end of Ray."""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Self

from antiphon.config.sources import process_environment
from antiphon.errors import AntiphonError, ReplicaLostError
from antiphon.fabric.cluster.child_process import ChildProcess
from antiphon.fabric.cluster.ray_plan import DRIVER_NAME, OUTLIVE_HEAD, RayDriverPlan
from antiphon.fabric.cluster.remote import WireController
from antiphon.fabric.cluster.restarted_process import STOP_S, RestartedChild
from antiphon.fabric.wire.rpc import RpcPeer
from antiphon.fabric.wire.sockets import connect
from antiphon.telemetry.process_state import ProcessState

logger = logging.getLogger(__name__)

_MODULE = "antiphon.fabric.cluster.ray_driver_process"
_RETRY_S = 1.0


class RayDriver(WireController):
    """The `Controller` of a cluster on Ray, through a driver process that is restarted when it
    ends.

    Ray ends a driver with its raylet. Streams do not pass through the driver: while there is none,
    the replicas that are known serve on, and calls wait for the next driver.
    """

    def __init__(self, plan: RayDriverPlan) -> None:
        """Use `start`."""
        super().__init__(self._connect_driver)
        self._plan = plan
        self._process = RestartedChild(DRIVER_NAME)

    @classmethod
    async def start(cls, plan: RayDriverPlan) -> Self:
        """Start a driver, and connect to it; raises SettingsError."""
        driver = cls(plan)
        async with AsyncExitStack() as unless_connected:
            unless_connected.push_async_callback(driver.close)
            await driver.open()
            unless_connected.pop_all()
        return driver

    @property
    def token(self) -> str:
        return self._plan.cluster.token

    async def processes(self) -> tuple[ProcessState, ...]:
        """Return the driver's state; replicas are processes of other hosts."""
        return (self._process.state,)

    async def close(self) -> None:
        await super().close()
        await self._process.stop(STOP_S)

    async def _call_peer(self, method: str, *arguments: Any) -> Any:
        while True:
            try:
                return await super()._call_peer(method, *arguments)
            except ReplicaLostError as error:
                logger.warning("the Ray driver does not answer: %s", error.message)
                await asyncio.sleep(_RETRY_S)

    async def _connect_driver(self) -> RpcPeer:
        """Return a connection to the driver; start one if none runs.

        Raises:
            SettingsError: there is no such Ray cluster.
            EngineError: the driver has ended before it was connected.
            ReplicaLostError: it has ended since.
        """
        child = self._process.child
        if child is None or not child.is_running:
            child = await self._process.start(self._launch)
        news: tuple[str | None, str] | AntiphonError = await child.reported()
        if isinstance(news, AntiphonError):
            raise news
        address, token = news
        cluster = replace(self._plan.cluster, token=token)
        self._plan = replace(self._plan, address=address, cluster=cluster, is_restart=True)
        return await connect(self._plan.socket, token)

    async def _launch(self) -> ChildProcess:
        plan = self._plan = replace(self._plan, number=self._process.num_starts)
        # A cluster of its own cannot get its head back: it shall end, to be begun anew.
        environment = {} if plan.address is None else OUTLIVE_HEAD
        return await ChildProcess.start(
            DRIVER_NAME, _MODULE, plan, environment={**environment, **process_environment()}
        )
