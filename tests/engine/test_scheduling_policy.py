"""The playback clock: chunk sizes by the listener's buffer, and who is left out of a step."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from antiphon.engine.cost_model import CostModel
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduling_policy import ALL_ROWS, PlaybackPolicy, round_down, round_up
from antiphon.models.base import Prompt
from tests.engine.strict_device import CODEC

POLICY = PlaybackPolicy()
SIZES = POLICY.chunk_sizes(CODEC)
NOW_S = 100.0


def request(slack_s: float, *, is_live: bool = True, num_decoded: int = 1) -> EngineRequest:
    each = EngineRequest("r", Prompt(data=None, num_tokens=1, seed=0), is_live)
    each.deadline_s = NOW_S + slack_s
    each.num_frames_decoded = num_decoded
    each.chunk_frames = 4
    return each


requests = st.lists(
    st.one_of(
        st.builds(request, st.floats(-1.0, 5.0)),
        st.builds(request, st.just(inf), num_decoded=st.just(0)),
        st.builds(request, st.just(inf), is_live=st.just(False)),
    ),
    max_size=100,
)


@given(st.sampled_from(SIZES), st.floats(-1.0, 30.0), st.floats(1e-4, 0.2))
def test_a_chunk_is_made_long_before_its_listener_needs_it(
    last: int, slack_s: float, step_s: float
) -> None:
    size = POLICY.next_chunk_frames(SIZES, last, slack_s, step_s)
    assert size in SIZES
    assert size <= last * POLICY.spacing
    assert size == SIZES[0] or size * step_s < slack_s
    assert size <= POLICY.next_chunk_frames(SIZES, last, slack_s + 1.0, step_s)


@given(requests, st.booleans())
def test_nobody_who_cannot_wait_is_left_out_of_a_step(
    ready: list[EngineRequest], is_due: bool
) -> None:
    rows = POLICY.rows_to_run(ready, CostModel(), NOW_S, is_first_sound_due=is_due)
    ids = {id(each) for each in rows}
    assert len(ids) == len(rows)
    assert ids <= {id(each) for each in ready}
    for each in ready:
        is_short = each.deadline_s <= NOW_S + POLICY.comfort_s
        if each.is_live and (is_short or each.num_frames_decoded == 0):
            assert id(each) in ids
    if ready:
        assert rows
    all_rows = ALL_ROWS.rows_to_run(ready, CostModel(), NOW_S, is_first_sound_due=is_due)
    assert list(all_rows) == ready


def test_bulk_work_gets_its_share_in_turn_while_streams_are_in_danger() -> None:
    live = [request(0.01) for _ in range(8)]
    bulk = [request(inf, is_live=False) for _ in range(200)]
    num_served = {id(each): 0 for each in bulk}
    for _ in range(40):
        rows = POLICY.rows_to_run([*live, *bulk], CostModel(), NOW_S, is_first_sound_due=False)
        chosen = {id(each) for each in rows}
        assert chosen >= {id(each) for each in live}
        assert len(rows) < 100
        for each in bulk:
            each.num_steps_left_out = 0 if id(each) in chosen else each.num_steps_left_out + 1
            num_served[id(each)] += id(each) in chosen
    assert min(num_served.values()) > 0


@given(requests, st.floats(0.0, 30.0))
def test_chunks_are_decoded_nearest_to_silence_first(
    due: list[EngineRequest], num_on_average: float
) -> None:
    chosen = POLICY.chunks_to_decode(due, num_on_average, CostModel(), NOW_S)
    left = {id(each) for each in due} - {id(each) for each in chosen}
    latest_s = max((each.deadline_s for each in chosen if each.num_frames_decoded), default=inf)
    for each in due:
        if id(each) in left:
            assert each.deadline_s >= NOW_S + POLICY.comfort_s
            assert each.deadline_s >= latest_s or latest_s == inf
            assert not each.is_first_sound_due
    assert bool(chosen) == bool(due)


def test_sizes_round_within_what_there_is() -> None:
    assert [round_up(n, (1, 4, 16)) for n in (0.2, 1, 2, 16, 40)] == [1, 1, 4, 16, 16]
    assert [round_down(n, (2, 4)) for n in (1, 2.5, 9)] == [0, 2, 4]
    assert SIZES == (1, 4, 16)
