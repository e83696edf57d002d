"""The playback clock: chunk sizes by the listener's buffer, earliest deadlines first."""

from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.prompt import Prompt
from antiphon.engine.chunk_planner import CausalChunks, round_down, round_up
from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.request import EngineRequest, Status
from tests.engine.strict_device import CODEC

POLICY = PlaybackPolicy()
PLANNER = CausalChunks(CODEC, POLICY, CostModel())
SIZES = CODEC.chunk_sizes
ANY_SIZE = replace(CODEC, chunk_sizes=tuple(range(1, 17)))
NOW_S = 100.0


def request(slack_s: float, *, is_live: bool = True, num_decoded: int = 1) -> EngineRequest:
    each = EngineRequest("r", Prompt(data=None, num_tokens=1, seed=0), is_live)
    each.clock.deadline_s = NOW_S + slack_s
    each.codec.num_decoded = num_decoded
    each.codec.chunk_frames = 4
    return each


def running(*, is_live: bool = True, num_decoded: int = 1) -> EngineRequest:
    """Return a stream in a slot, whose first ``num_decoded`` frames were decoded."""
    stream = request(-10.0, is_live=is_live, num_decoded=num_decoded)
    stream.arrive(NOW_S, max_unread_frames=100, has_codec=True)
    stream.slot, stream.status = 0, Status.RUNNING
    for _ in range(num_decoded):
        stream.plan_frame()
    return stream


def paced(pace: float) -> CostModel:
    """Return the costs of steps that take ``pace`` times as long as a frame plays."""
    costs = CostModel()
    costs.observe(StepShape(num_rows=1), pace * CODEC.frame_s)
    return costs


requests = st.lists(
    st.one_of(
        st.builds(request, st.floats(-1.0, 5.0)),
        st.builds(request, st.just(inf), num_decoded=st.just(0)),
        st.builds(request, st.just(inf), is_live=st.just(False)),
    ),
    max_size=100,
)


@given(st.sampled_from(SIZES), st.floats(-1.0, 30.0), st.floats(1e-4, CODEC.frame_s))
def test_a_chunk_is_made_long_before_its_listener_needs_it(
    last: int, slack_s: float, step_s: float
) -> None:
    size = PLANNER.next_chunk_frames(last, slack_s, step_s)
    assert size in SIZES
    assert size <= last * POLICY.spacing
    assert size == SIZES[0] or size * step_s < slack_s
    assert size <= PLANNER.next_chunk_frames(last, slack_s + 1.0, step_s)


@pytest.mark.parametrize(("pace", "most"), [(0.9, 1), (1.1, 4)])
def test_chunks_are_as_small_as_can_be_only_where_that_prevents_gaps(
    pace: float, most: int
) -> None:
    planner, stream = CausalChunks(CODEC, POLICY, paced(pace)), running()
    sizes = []
    for _ in range(20):
        stream.plan_frame()
        stream.clock.deadline_s = NOW_S - 10.0
        sizes += [chunk.num_frames for _, chunk in planner.plan([stream], 1, NOW_S)]
    assert {*sizes[3:]} == {most}
    assert sum(sizes) > 20 - most


@pytest.mark.parametrize("costs", [CostModel(), paced(1.1)], ids=["not measured", "slow"])
@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("num_decoded", range(7))
def test_chunks_end_with_passes_of_the_decoder(
    num_decoded: int, is_live: bool, costs: CostModel
) -> None:
    codec = replace(CODEC, chunk_sizes=(1, 2, 3, 4), pass_frames=4)
    planner = CausalChunks(codec, POLICY, costs)
    stream = running(is_live=is_live, num_decoded=num_decoded)
    ends = []
    for _ in range(30):
        stream.plan_frame()
        planned = planner.plan([stream], 1, NOW_S)
        ends += [chunk.start + chunk.num_frames for _, chunk in planned]
    later = ends[num_decoded == 0 and is_live :]
    assert later == [*range(later[0], later[-1] + 1, 4)]
    assert later[0] % 4 == 1
    assert len(later) > 5


@pytest.mark.parametrize(("pace", "first"), [(0.9, 2), (1.1, 1)])
def test_a_first_chunk_is_longer_than_a_frame_only_where_that_prevents_a_gap(
    pace: float, first: int
) -> None:
    stream = EngineRequest("r", Prompt(data=None, num_tokens=1, seed=0))
    CausalChunks(CODEC, POLICY, paced(pace)).add(stream)
    assert stream.codec.chunk_frames == first


@given(requests, st.integers(0, 100))
def test_chunks_are_decoded_nearest_to_silence_first(
    due: list[EngineRequest], num_frames: int
) -> None:
    chosen = PLANNER.select(due, [], num_frames, NOW_S)
    left = {id(each) for each in due} - {id(each) for each in chosen}
    latest_s = max(
        (each.clock.deadline_s for each in chosen if each.codec.num_decoded), default=inf
    )
    for each in due:
        if id(each) in left:
            assert each.clock.deadline_s >= NOW_S + POLICY.comfort_s
            assert each.clock.deadline_s >= latest_s or latest_s == inf
            assert not PLANNER.is_first_audio_due(each)
    assert bool(chosen) == bool(due)
    if left:
        num_before, costs = 0, CostModel()
        least_s = POLICY.least * costs.codec_s(1) if num_frames else POLICY.idle_s
        least = max(1, costs.codec_frames_within(least_s))
        for each in chosen:
            is_exempt = (
                each.clock.deadline_s < NOW_S + POLICY.comfort_s or PLANNER.is_first_audio_due(each)
            )
            assert is_exempt or num_before < max(least, num_frames * POLICY.spread)
            num_before += each.codec.chunk_frames


def test_sizes_round_within_what_there_is() -> None:
    assert [round_up(n, (1, 4, 16)) for n in (0.2, 1, 2, 16, 40)] == [1, 1, 4, 16, 16]
    assert [round_down(n, (2, 4)) for n in (1, 2.5, 9)] == [0, 2, 4]


def test_streams_that_end_together_are_decoded_in_a_few_passes() -> None:
    ended = [request(10.0) for _ in range(256)]
    for each in ended:
        each.codec.chunk_frames = 16
    num_steps = 0
    while ended:
        chosen = PLANNER.select(ended, [], 0, NOW_S)
        ended = [each for each in ended if each not in chosen]
        num_steps += 1
    assert num_steps * POLICY.idle_s <= 2 * CostModel().codec_s(256 * 16)


def test_streams_that_began_together_are_decoded_evenly_over_steps() -> None:
    streams = [request(1.0) for _ in range(64)]
    ready = {id(each): 0 for each in streams}
    decoded = []
    for each in streams:
        each.codec.chunk_frames = 16
    for _ in range(200):
        ready = {key: number + 1 for key, number in ready.items()}
        due = [each for each in streams if ready[id(each)] >= 16]
        chosen = PLANNER.select(due, [], len(streams), NOW_S)
        for each in chosen:
            ready[id(each)] -= 16
            each.clock.deadline_s += 16 * CODEC.frame_s
        decoded.append(16 * len(chosen))
    assert max(decoded) <= 80, "a step decodes much more than it makes"
    assert sum(decoded[100:]) >= 64 * 95, "frames are left lying"


def passes(num_streams: int, num_steps: int) -> list[int]:
    """Return how many frames each step decodes of streams that make one each."""
    planner = CausalChunks(ANY_SIZE, POLICY, CostModel())
    streams = [request(5.0) for _ in range(num_streams)]
    for slot, each in enumerate(streams):
        each.slot, each.status = slot, Status.RUNNING
        each.codec.chunk_frames = 1 + slot % 16
        for _ in range(each.codec.num_decoded):
            each.plan_frame()
    decoded = []
    for _ in range(num_steps):
        for each in streams:
            each.plan_frame()
        planned = planner.plan(streams, len(streams), NOW_S)
        decoded.append(sum(chunk.num_frames for _, chunk in planned))
    num_left = sum(each.num_frames_undecoded for each in streams)
    assert sum(decoded) + num_left == num_streams * num_steps, "frames are lost"
    assert num_left <= 20 * num_streams, "frames are left lying"
    return decoded


def test_every_other_step_leaves_its_frames_to_the_next_where_that_saves_time() -> None:
    decoded = passes(64, 100)
    assert all(one or other for one, other in pairwise(decoded)), "twice in a row"
    assert sum(not each for each in decoded[20:]) >= 30
    assert all(passes(256, 100)[20:]), "a pass over so many frames has no time of its own to save"


def test_nobody_waits_who_is_near_silence() -> None:
    near_s = POLICY.margin_s + 2 * CostModel().long_frame_s
    planner = CausalChunks(ANY_SIZE, POLICY, CostModel())
    streams = [request(near_s), *(request(5.0) for _ in range(63))]
    for slot, each in enumerate(streams):
        each.slot, each.status = slot, Status.RUNNING
        each.codec.chunk_frames = 1
        each.plan_frame()
    for _ in range(10):
        for each in streams:
            each.plan_frame()
        chosen = [one for one, _ in planner.plan(streams, len(streams), NOW_S)]
        assert streams[0] in chosen
        streams[0].clock.deadline_s, streams[0].codec.chunk_frames = NOW_S + near_s, 1
