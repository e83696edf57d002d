"""Cluster on Ray: stage processes are actors, which Ray places, restarts and accounts for."""

import asyncio
import logging
import secrets
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Self

import ray

from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.family import LoadContext, Ref, StageSpec
from antiphon.errors import ModelLoadError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.cluster.hosting import Hosting, StageView
from antiphon.fabric.cluster.launch_ray import ControllerPlan, RayController
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.ray_control import (
    CONTROLLER,
    RayClusterControl,
    connect_ray,
    keep_signal_handlers,
)
from antiphon.fabric.wire.sockets import WireTls
from antiphon.telemetry.process_state import ProcessState

logger = logging.getLogger(__name__)

_POLL_S = 20.0
_LOOK_S = 5.0  # between two looks at a stage that is to become ready
_CLOSE_S = 5.0
_RETRY_S = 0.5
_NUM_RENEWALS = 6  # of a lease within its time


class RayCluster:
    """`Cluster` of one front end, which is a Ray driver; the actors outlive it.

    Attributes:
        token: token of the connections between all processes of the cluster.
        address: address of the Ray cluster; ``None``: this process has started it.
    """

    def __init__(
        self, control: RayClusterControl, token: str, address: str | None, limits: ClusterLimits
    ) -> None:
        """Use `connect`."""
        self.token = token
        self.address = address
        self.control = control
        self._limits = limits
        self._owner = f"front-{uuid.uuid4().hex[:12]}"
        self._hosted: dict[str, Hosting] = {}
        self._counts: Counter[str] = Counter()
        self._reports: set[asyncio.Task[None]] = set()
        self._renewing = asyncio.create_task(self._renew_forever(), name="renew lease")

    @classmethod
    async def connect(
        cls,
        build: Ref,
        *,
        token: str | None = None,
        address: str | None = None,
        namespace: str = "antiphon",
        limits: ClusterLimits | None = None,
        tls: WireTls | None = None,
    ) -> Self:
        """Connect this process to Ray, and start the cluster's controller if there is none.

        Args:
            build: `StageBuilder` of the replicas.
            token: token of the cluster's connections if this front end is the first one; later ones
                get the cluster's token. ``None``: a random one.
            address: address of the Ray cluster; ``None``: the one that Ray finds, else a new one on
                this host.
            namespace: Ray namespace, which isolates clusters from each other.
            limits: time limits of the controller; default: those of `ClusterLimits`.
            tls: TLS of the cluster's connections, if this front end is the first one.

        Raises:
            SettingsError: there is no such Ray cluster.
        """
        limits = limits or ClusterLimits()
        plan = ControllerPlan(
            namespace=namespace,
            token=token or secrets.token_hex(32),
            build=build,
            limits=limits,
            tls=tls,
        )

        def start() -> Any:
            return (
                ray.remote(RayController)
                .options(
                    name=CONTROLLER,
                    namespace=namespace,
                    lifetime="detached",
                    get_if_exists=True,
                    max_restarts=-1,
                    num_cpus=0,
                    max_concurrency=10_000,
                )
                .remote(plan)
            )

        found = await asyncio.to_thread(connect_ray, address, namespace)
        keep_signal_handlers()
        control = await asyncio.to_thread(RayClusterControl, start)
        known_token = await control.call(lambda controller: controller.token.remote())
        return cls(control, known_token, found, limits)

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        hosting = Hosting(tuple(specs), context, placement)
        stage_id = hosting.id
        self._counts[stage_id] += 1
        self._hosted[stage_id] = hosting
        with ExitStack() as unless_ready:
            unless_ready.callback(self._give_up, stage_id)
            await self._until_ready(hosting)
            unless_ready.pop_all()
        return stage_id

    def _give_up(self, stage_id: str) -> None:
        """Release stages that did not become ready, unless they are hosted otherwise."""
        if self._forget(stage_id):
            self.control.actor.release.remote(self._owner, stage_id)  # not awaited

    async def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        version = -1
        while True:
            view = await self._poll(stage_id, version)
            if view is None:  # the restarted controller gets it again from `_renew_forever`
                version = -1
                await asyncio.sleep(_RETRY_S)
            elif view.version != version:
                version = view.version
                yield view.replicas

    def report(self, stage_id: str, replica_id: str) -> None:
        reporting = asyncio.create_task(
            self.control.call(lambda controller: controller.report.remote(stage_id, replica_id))
        )
        self._reports.add(reporting)
        reporting.add_done_callback(self._reports.discard)

    def processes(self) -> tuple[ProcessState, ...]:
        """Return nothing: replicas are processes of other hosts, which Ray accounts for."""
        return ()

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        await self.control.scale(stage_id, num_replicas)

    async def release(self, stage_id: str) -> None:
        if self._forget(stage_id):
            await self._release(stage_id)

    def stop_renewing(self) -> None:
        """Let the lease expire, as it does when this process dies."""
        self._renewing.cancel()

    async def close(self) -> None:
        await cancel_and_wait(self._renewing, *self._reports)
        stage_ids = tuple(self._hosted)
        for stage_id in stage_ids:
            self._counts[stage_id] = 0
            self._forget(stage_id)
        with suppress(TimeoutError):  # the lease expires if the controller is unreachable
            async with asyncio.timeout(_CLOSE_S):
                for stage_id in stage_ids:
                    await self._release(stage_id)

    async def _release(self, stage_id: str) -> None:
        await self.control.call(lambda each: each.release.remote(self._owner, stage_id))

    def _forget(self, stage_id: str) -> bool:
        """Count one user less; return whether it was the last one."""
        if stage_id not in self._hosted:
            return False
        self._counts[stage_id] -= 1
        if self._counts[stage_id] > 0:
            return False
        del self._counts[stage_id]
        del self._hosted[stage_id]
        return True

    async def _until_ready(self, hosting: Hosting) -> None:
        """Return once a replica serves.

        Raises:
            ModelLoadError: it cannot be loaded, or Ray has had no room for too long.
        """
        version, lack = -1, None
        loop = asyncio.get_running_loop()
        placed_by_s = loop.time() + self._limits.place_s
        await self._host_again(hosting)
        while True:
            view = await self._poll(hosting.id, version, _LOOK_S)
            if view is None:
                await self._host_again(hosting)
                continue
            if view.replicas:
                return
            if view.failure is not None:
                raise ModelLoadError(view.failure)
            if view.version != version:
                version = view.version
                continue
            lack, before = await self._unplaced(hosting), lack
            if lack is None:  # a process loads the stages, which may take any time
                placed_by_s = loop.time() + self._limits.place_s
            elif loop.time() >= placed_by_s:
                raise ModelLoadError(
                    f"Ray has placed no replica of '{hosting.name}' within"
                    f" {self._limits.place_s:g} s. {lack}"
                )
            elif lack != before:
                logger.warning("Ray has placed no replica of '%s' yet. %s", hosting.name, lack)

    async def _unplaced(self, hosting: Hosting) -> str | None:
        found: str | None
        found = await self.control.call(lambda controller: controller.unplaced.remote(hosting.id))
        return found

    async def _poll(self, stage_id: str, version: int, wait_s: float = _POLL_S) -> StageView | None:
        view: StageView | None
        view = await self.control.call(lambda each: each.poll.remote(stage_id, version, wait_s))
        return view

    async def _renew_forever(self) -> None:
        """Renew the lease; host stages again that a restarted controller does not have."""
        while True:
            await asyncio.sleep(self._limits.lease_s / _NUM_RENEWALS)
            known = await self.control.call(lambda controller: controller.renew.remote(self._owner))
            for stage_id, hosting in tuple(self._hosted.items()):
                if stage_id not in known:
                    await self._host_again(hosting)

    async def _host_again(self, hosting: Hosting) -> None:
        await self.control.call(lambda controller: controller.host.remote(self._owner, hosting))
