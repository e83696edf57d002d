"""A cluster that leaves a choice is scaled by its load; one that leaves none is left alone."""

import asyncio

from antiphon.errors import InvalidRequestError
from antiphon.fabric.autoscaler import AutoscalerLimits
from antiphon.fabric.autoscaling import Autoscaling
from antiphon.fabric.cluster import Replica, StageSummary
from antiphon.telemetry.stage_status import StageStatus
from tests.servers import DEADLINE_S

PERIOD_S = 0.001


class Pretended:
    """A cluster whose replicas are ready at once."""

    def __init__(self, limits: AutoscalerLimits | None, num_open: int) -> None:
        self.limits = limits
        self.num_open = num_open
        self.num_wanted = 1
        self.num_asked = 0
        self.fails = False

    async def stages(self) -> tuple[StageSummary, ...]:
        self.num_asked += 1
        status = StageStatus(num_open=self.num_open // self.num_wanted, capacity=10)
        replica = Replica("r", "unix:/nowhere", "stage-0")
        draining = Replica("d", "unix:/nowhere", "stage-0", is_draining=True)
        return (
            StageSummary(
                id="stage-0",
                name="stage",
                num_wanted=self.num_wanted,
                num_front_ends=1,
                replicas=(*[(replica, status)] * self.num_wanted, (draining, StageStatus(99, 10))),
                num_loading=0,
                limits=self.limits,
            ),
        )

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        if self.fails:
            self.fails = False
            raise InvalidRequestError("not now")
        self.num_wanted = num_replicas

    async def asked(self, times: int) -> None:
        end = self.num_asked + times
        while self.num_asked < end:
            await asyncio.sleep(PERIOD_S)


def scaled(cluster: Pretended, num_looks: int) -> int:
    async def main() -> None:
        running = asyncio.create_task(Autoscaling(cluster, PERIOD_S).run())
        await asyncio.wait_for(cluster.asked(num_looks), DEADLINE_S)
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(main())
    return cluster.num_wanted


def test_it_follows_the_load_of_what_serves() -> None:
    limits = AutoscalerLimits(min_replicas=1, max_replicas=4)
    assert scaled(Pretended(limits, num_open=20), 10) == 3


def test_a_fixed_number_stays() -> None:
    assert scaled(Pretended(None, num_open=50), 10) == 1


def test_a_refusal_is_no_end() -> None:
    limits = AutoscalerLimits(min_replicas=1, max_replicas=4, up_cooldown_s=0.0)
    cluster = Pretended(limits, num_open=20)
    cluster.fails = True
    assert scaled(cluster, 10) == 3
