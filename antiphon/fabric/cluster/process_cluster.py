"""Cluster of one host: its stage processes are children of this process."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.errors import ModelLoadError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Replica, StageSummary
from antiphon.fabric.cluster.controller import ClusterController
from antiphon.fabric.cluster.hosting import Hosting, StageView
from antiphon.fabric.cluster.launch_process import ProcessClusterOptions, ProcessLauncher
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.state import ClusterState
from antiphon.telemetry.process_state import ProcessState

LIMITS = ClusterLimits(
    lease_s=math.inf, dead_after_s=math.inf, restart_after_s=math.inf, drain_s=30.0, retry_s=1.0
)
"""Limits of a cluster whose parent process sees at once that a child has ended."""
_OWNER = "server"
_POLL_S = 60.0
_LOOK_S = 0.2


class ProcessCluster:
    """The `Cluster` of one host, with a controller in this process."""

    def __init__(self, options: ProcessClusterOptions) -> None:
        """Begin without a process."""
        numbers = count()
        self._launcher = ProcessLauncher(options, lambda beat: self._controller.record(beat))
        self._state = ClusterState(
            lambda stage_id: f"{stage_id}.{next(numbers)}", now_s=time.monotonic(), limits=LIMITS
        )
        self._controller = ClusterController(self._state, self._launcher)
        self._num_users = Counter[str]()

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        stage_id = await self._controller.host(_OWNER, Hosting(tuple(specs), context, placement))
        self._num_users[stage_id] += 1
        async with AsyncExitStack() as unless_ready:
            unless_ready.push_async_callback(self.release, stage_id)
            await self._controller.tick()
            if not self._state.was_ready(stage_id):  # a front end may start while it is restarted
                await self._until_ready(stage_id)
            unless_ready.pop_all()
        return stage_id

    async def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        async for view in self._views(stage_id):
            yield view.replicas

    def report(self, stage_id: str, replica_id: str) -> None:
        self._launcher.check(replica_id)

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        await self._controller.scale(stage_id, num_replicas)
        await self._controller.tick()
        while self._state.is_draining(stage_id):
            await asyncio.sleep(_LOOK_S)
        await self._launcher.stopped(stage_id)

    async def stages(self) -> tuple[StageSummary, ...]:
        """Return all stages."""
        return tuple(
            replace(summary, num_front_ends=self._num_users[summary.id])
            for summary in await self._controller.summaries()
        )

    async def release(self, stage_id: str) -> None:
        if not self._num_users[stage_id]:
            return
        self._num_users[stage_id] -= 1
        if not self._num_users[stage_id]:
            await self._controller.release(_OWNER, stage_id)
            await self._controller.tick()
            await self._launcher.stopped(stage_id)

    async def close(self) -> None:
        for stage_id in tuple(self._num_users):
            self._num_users[stage_id] = min(1, self._num_users[stage_id])
            await self.release(stage_id)
        self._controller.stop_ticking()
        await self._launcher.stopped()

    def processes(self) -> tuple[ProcessState, ...]:
        """Return the states of all stage processes."""
        return self._launcher.processes()

    async def _until_ready(self, stage_id: str) -> None:
        """Return once a replica serves.

        Raises:
            ModelLoadError: no replica can be loaded.
        """
        async for view in self._views(stage_id):
            if view.replicas:
                return
            if view.failure is not None:
                raise ModelLoadError(view.failure)

    async def _views(self, stage_id: str) -> AsyncGenerator[StageView, None]:
        """Yield the views of a stage until it is unloaded."""
        version = -1
        while (view := await self._controller.poll(stage_id, version, _POLL_S)) is not None:
            if view.version != version:
                version = view.version
                yield view
