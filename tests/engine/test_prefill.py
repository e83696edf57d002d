"""Prompts take a share of what the nearest listener can wait."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.prompt import Prompt
from antiphon.engine.cost_model import CostModel
from antiphon.engine.prefill import IDLE_S, SLACK_SHARE, STEP_SHARE, positions_beside
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import SchedulerLimits

NOW_S = 100.0


def request(slack_s: float) -> EngineRequest:
    each = EngineRequest("r", Prompt(data=None, num_tokens=1, seed=0), is_live=True)
    each.clock.deadline_s = NOW_S + slack_s
    return each


requests = st.lists(st.builds(request, st.one_of(st.floats(-1.0, 5.0), st.just(inf))), max_size=100)


@given(requests, st.integers(0, 256))
def test_prompts_take_a_share_of_the_nearest_listeners_slack(
    waiting: list[EngineRequest], num_rows: int
) -> None:
    costs = CostModel()
    num_positions = positions_beside(costs, num_rows, waiting, NOW_S)
    assert num_positions > 0
    slack_s = min((each.clock.deadline_s for each in waiting), default=inf) - NOW_S
    least_s = STEP_SHARE * costs.rows_s(max(1, num_rows))
    most_s = max(IDLE_S if slack_s == inf else slack_s * SLACK_SHARE, least_s)
    alone_s = 0.0 if num_rows else costs.prefill_s(0, 1)
    assert costs.prefill_s(num_rows, num_positions) <= most_s + alone_s + 1e-9


def test_while_nobody_listens_a_burst_of_prompts_is_one_step() -> None:
    costs = CostModel()
    most = SchedulerLimits().max_prefill_positions
    assert positions_beside(costs, 0, [request(inf)], NOW_S) >= most
    near = positions_beside(costs, 64, [request(0.01)], NOW_S)
    far = positions_beside(costs, 64, [request(0.06)], NOW_S)
    assert 0 < near < far < most
