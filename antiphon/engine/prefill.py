"""Planning of prefills beside the frames of other requests."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from math import inf

from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import Prefill
from antiphon.engine.request import EngineRequest, slot_of
from antiphon.engine.slot_allocator import SlotAllocator
from antiphon.engine.step_plan_builder import StepPlanBuilder
from antiphon.telemetry.engine_stats import EngineStats


@dataclass(frozen=True, slots=True)
class PrefillPolicy:
    """Limits of the prompt positions that a step computes beside the frames of others.

    A pass that reads the weights for some rows computes a few hundred positions in hardly more
    time. More of them delay every stream, up to what the nearest deadline allows.

    Attributes:
        slack_share: share of the time to the nearest deadline that prompts may take.
        step_share: share of the duration of the step's rows that prompts may take in any case.
        idle_s: time that prompts may take while no stream has had audio yet.
    """

    slack_share: float = 0.5
    step_share: float = 0.25
    idle_s: float = 0.1
    most_positions: int = 4096

    def num_positions(
        self, costs: CostModel, num_rows: int, requests: Iterable[EngineRequest], now_s: float
    ) -> int:
        """Return how many positions a step of ``num_rows`` frames may compute."""
        slack_s = min((request.clock.deadline_s for request in requests), default=inf) - now_s
        share_s = self.idle_s if slack_s == inf else slack_s * self.slack_share
        allowed_s = max(share_s, costs.rows_s(max(1, num_rows)) * self.step_share)
        return min(costs.positions_within(num_rows, allowed_s), self.most_positions)


def plan_prefills(
    builder: StepPlanBuilder,
    slots: SlotAllocator,
    policy: PrefillPolicy,
    costs: CostModel,
    stats: EngineStats,
) -> None:
    """Prefill prompts, live requests' first; a complete one makes its first frame too."""
    blocks, prefilling = slots.blocks, slots.prefilling
    if blocks is None or not prefilling:
        return
    holders = chain(slots.running.values(), slots.draining.values())
    num_left = policy.num_positions(costs, len(builder.rows), holders, builder.now_s)
    num_left = max(num_left, blocks.block_positions)
    num_replayed_left = blocks.max_replayed
    for request in sorted(prefilling, key=lambda request: not request.is_live):
        start = request.table.num_computed
        end = blocks.prefill_end(request, num_left, num_replayed_left)
        if end <= start:
            continue
        builder.prefills.append(Prefill(slot_of(request), start, end))
        stats.prefill_positions += end - start
        blocks.prefill(request, end)
        num_left -= end - start
        num_replayed_left -= max(0, end - max(start, request.prompt.num_positions))
        if request.table.is_prefilled:
            prefilling.remove(request)
            if request.may_run:
                builder.rows.append(request)
