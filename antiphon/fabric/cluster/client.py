"""A front end's access to the stages that it has hosted in a cluster."""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack
from math import inf
from typing import Any

from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.errors import AntiphonError, ModelLoadError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Controller, Hosting, Replica
from antiphon.fabric.cluster.members import ClusterLimits

logger = logging.getLogger(__name__)

RELEASE_S = 1.0
"""Longest wait for the release of a stage, where the controller may be unreachable."""
_POLL_S = 20.0
_LOOK_S = 5.0  # between two looks at a stage that is to become ready
_CLOSE_S = 5.0
_RETRY_S = 0.5
_NUM_RENEWALS = 6  # of a lease within its time


class ClusterClient:
    """Hosts stages for one front end, renews its lease, and repeats what the controller has lost.

    Stages are hosted once, however often `host` is called, until `release`.

    Attributes:
        controller: controller of the cluster, closed with this client.
    """

    def __init__(
        self,
        controller: Controller,
        limits: ClusterLimits | None = None,
        *,
        release_s: float = inf,
    ) -> None:
        """Begin without stages.

        Args:
            release_s: longest time that `release` waits for an unreachable controller.
        """
        self.controller = controller
        self._limits = limits or ClusterLimits()
        self._release_s = release_s
        self._owner = f"front-{uuid.uuid4().hex[:12]}"
        self._hosted: dict[str, Hosting] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._releases: set[asyncio.Task[None]] = set()
        self._renewing = asyncio.create_task(self._renew_forever(), name="renew lease")

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        """Return the id of an engine's stages once a replica is ready; raises ModelLoadError."""
        hosting = Hosting(tuple(specs), context, placement)
        is_new = hosting.id not in self._hosted
        self._hosted[hosting.id] = hosting
        async with AsyncExitStack() as unless_ready:
            if is_new:
                unless_ready.push_async_callback(self.release, hosting.id)
            await self._until_ready(hosting)
            unless_ready.pop_all()
        return hosting.id

    def keep(self, hosting: Hosting) -> None:
        """Begin to host stages, unless they are hosted."""
        if hosting.id not in self._hosted:
            hosted = self.host(hosting.specs, hosting.context, hosting.placement)
            self._run(hosted, self._tasks)

    async def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        """Yield the replicas, now and after each change."""
        version = -1
        while True:
            view = await self.controller.poll(stage_id, version, _POLL_S)
            if view is None:  # a restarted controller gets it again from `_renew_forever`
                version = -1
                await asyncio.sleep(_RETRY_S)
            elif view.version != version:
                version = view.version
                yield view.replicas

    def report(self, stage_id: str, replica_id: str) -> None:
        self._run(self.controller.report(stage_id, replica_id), self._tasks)

    async def release(self, stage_id: str) -> None:
        if self._hosted.pop(stage_id, None) is not None:
            releasing = self._begin_release(stage_id)
            await asyncio.wait((releasing,), timeout=self._release_s)

    async def close(self) -> None:
        await cancel_and_wait(self._renewing, *self._tasks)
        for stage_id in tuple(self._hosted):
            self._begin_release(stage_id)
        self._hosted.clear()
        if self._releases:  # the lease expires if the controller is unreachable
            await asyncio.wait(self._releases, timeout=_CLOSE_S)
        await cancel_and_wait(*self._releases)
        await self.controller.close()

    def _begin_release(self, stage_id: str) -> "asyncio.Task[None]":
        return self._run(self.controller.release(self._owner, stage_id), self._releases)

    def _run(
        self, call: Coroutine[Any, Any, object], running: set["asyncio.Task[None]"]
    ) -> "asyncio.Task[None]":

        async def run() -> None:
            try:
                await call
            except AntiphonError as error:
                logger.warning("a call of the cluster's controller failed: %s", error.message)

        task = asyncio.create_task(run())
        running.add(task)
        task.add_done_callback(running.discard)
        return task

    async def _until_ready(self, hosting: Hosting) -> None:
        """Return once a replica serves, or has served and is restarted; raises ModelLoadError."""
        version, lack = -1, None
        loop = asyncio.get_running_loop()
        placed_by_s = loop.time() + self._limits.place_s
        await self.controller.host(self._owner, hosting)
        while True:
            view = await self.controller.poll(hosting.id, version, _LOOK_S)
            if view is None:
                await self.controller.host(self._owner, hosting)
                continue
            if view.was_ready:
                return
            if view.failure is not None:
                raise ModelLoadError(view.failure)
            if view.version != version:
                version = view.version
                continue
            lack, before = await self.controller.lack(hosting.id), lack
            if lack is None:  # a process loads the stages, which may take any time
                placed_by_s = loop.time() + self._limits.place_s
            elif loop.time() >= placed_by_s:
                raise ModelLoadError(
                    f"Ray has placed no replica of '{hosting.name}' within"
                    f" {self._limits.place_s:g} s. {lack}"
                )
            elif lack != before:
                logger.warning("Ray has placed no replica of '%s' yet. %s", hosting.name, lack)

    async def _renew_forever(self) -> None:
        """Renew the lease; repeat what the controller has not received or has lost."""
        while True:
            await asyncio.sleep(self._limits.lease_s / _NUM_RENEWALS)
            try:
                known = await self.controller.renew(self._owner)
                for stage_id in known - self._hosted.keys():
                    await self.controller.release(self._owner, stage_id)
                for stage_id, hosting in tuple(self._hosted.items()):
                    if stage_id not in known:
                        await self.controller.host(self._owner, hosting)
            except AntiphonError as error:
                logger.warning("the lease cannot be renewed: %s", error)
