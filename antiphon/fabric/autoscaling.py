"""Scales the stages of a cluster by their load, for as long as the cluster runs."""

import asyncio
import logging

from antiphon.errors import AntiphonError
from antiphon.fabric.autoscaler import Autoscaler
from antiphon.fabric.cluster import ClusterControl, StageSummary

logger = logging.getLogger(__name__)

PERIOD_S = 2.0


class Autoscaling:
    """Asks a cluster for its stages every few seconds, and scales those that leave a choice."""

    def __init__(self, control: ClusterControl, period_s: float = PERIOD_S) -> None:
        """Begin without history; call `run`."""
        self._control = control
        self._period_s = period_s
        self._scalers: dict[str, Autoscaler] = {}
        self._scaling: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Scale until it is cancelled."""
        try:
            while True:
                stages = await self._control.stages()
                for stage in stages:
                    self._look_at(stage)
                self._forget({stage.id for stage in stages})
                await asyncio.sleep(self._period_s)
        finally:
            for scaling in self._scaling.values():
                scaling.cancel()

    def _look_at(self, stage: StageSummary) -> None:
        if stage.limits is None or stage.id in self._scaling:
            return
        now_s = asyncio.get_running_loop().time()
        scaler = self._scalers.setdefault(stage.id, Autoscaler(stage.limits, now_s=now_s))
        serving = [status for replica, status in stage.replicas if not replica.is_draining]
        wanted = scaler.wanted(serving, stage.num_wanted, now_s)
        if wanted != stage.num_wanted:
            logger.info("%s: %d replicas instead of %d", stage.id, wanted, stage.num_wanted)
            scaling = asyncio.create_task(self._scale(stage.id, wanted))  # a drain takes long
            self._scaling[stage.id] = scaling
            scaling.add_done_callback(lambda _: self._scaling.pop(stage.id, None))

    async def _scale(self, stage_id: str, wanted: int) -> None:
        try:
            await self._control.scale(stage_id, wanted)
        except AntiphonError as error:
            logger.error("%s cannot be scaled: %s", stage_id, error.message)

    def _forget(self, present: set[str]) -> None:
        for stage_id in set(self._scalers) - present:
            del self._scalers[stage_id]
