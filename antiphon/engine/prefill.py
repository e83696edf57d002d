"""Planning of prefills beside the frames of other requests."""

from collections.abc import Iterable
from math import inf

from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import Prefill
from antiphon.engine.request import EngineRequest, slot_of
from antiphon.engine.slot_allocator import SlotAllocator, StepPlanBuilder
from antiphon.telemetry.stage_status import EngineStats

SLACK_SHARE = 0.5  # of the time to the nearest deadline, that prompts may take
STEP_SHARE = 0.25  # of the duration of the step's rows, that prompts may take in any case
IDLE_S = 0.1  # that prompts may take while no stream has had audio yet


def positions_beside(
    costs: CostModel, num_rows: int, requests: Iterable[EngineRequest], now_s: float
) -> int:
    """Return how many positions a step of ``num_rows`` frames may compute beside ``requests``.

    A pass that reads the weights for some rows computes a few hundred positions in hardly more
    time. More of them delay every stream, up to what the nearest deadline allows.
    """
    slack_s = min((request.clock.deadline_s for request in requests), default=inf) - now_s
    share_s = IDLE_S if slack_s == inf else slack_s * SLACK_SHARE
    allowed_s = max(share_s, costs.rows_s(max(1, num_rows)) * STEP_SHARE)
    return costs.positions_within(num_rows, allowed_s)


def plan_prefills(
    builder: StepPlanBuilder,
    slots: SlotAllocator,
    max_positions: int,
    costs: CostModel,
    stats: EngineStats,
) -> None:
    """Prefill prompts, live requests' first; a complete one makes its first frame too."""
    blocks, prefilling = slots.blocks, slots.prefilling
    if blocks is None or not prefilling:
        return
    num_left = positions_beside(costs, len(builder.rows), slots.holders(), builder.now_s)
    num_left = max(min(num_left, max_positions), blocks.block_positions)
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
