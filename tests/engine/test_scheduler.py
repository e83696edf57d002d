"""The scheduler over random lives of requests: no slot lost, exactly one end each, order kept."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, FrameReady, Sampling
from antiphon.engine.chunk_planner import round_up
from antiphon.engine.cost_model import StepShape
from antiphon.engine.plan import FRAME_STORE_FRAMES, CacheShape, StepOutput, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import EngineEvent, Scheduler, SchedulerLimits
from antiphon.errors import InvalidRequestError
from tests.engine.strict_device import (
    CODEC,
    POLICIES,
    StrictDevice,
    Words,
    frame_value,
    heard_values,
)
from tests.engine.strict_device import prompt as strict_prompt
from tests.engine.turns import read_frames


def prompt(max_frames: int | None = None, allowed: int | None = None) -> Prompt:
    sampling = Sampling(max_frames=max_frames)
    return Prompt(data=None, num_tokens=1, seed=0, sampling=sampling, num_frames_allowed=allowed)


def frames_for(plan: StepPlan, stopped: frozenset[int] = frozenset()) -> StepOutput:
    return StepOutput({slot: slot for slot in plan.decode_slots if slot not in stopped}, stopped)


class Checker:
    """A runner that holds the scheduler to the protocol of plans."""

    def __init__(self) -> None:
        self.held: set[int] = set()

    def take(self, plan: StepPlan) -> None:
        for slot in plan.releases:
            self.held.remove(slot)
        for start in plan.starts:
            assert start.slot not in self.held, "started in a slot that was not released"
            self.held.add(start.slot)
        assert set(plan.decode_slots) <= self.held
        assert {append.slot for append in plan.appends} <= self.held
        assert len(set(plan.decode_slots)) == len(plan.decode_slots)


@given(st.data(), st.integers(1, 4))
def test_random_lives_lose_no_slot_and_end_exactly_once(data: st.DataObject, slots: int) -> None:
    scheduler, checker = Scheduler(slots, limits=SchedulerLimits(max_unread_frames=3)), Checker()
    ends: Counter[str] = Counter()
    added: list[str] = []
    for turn in range(data.draw(st.integers(1, 40))):
        action = data.draw(st.sampled_from(["add", "abort", "read", "step", "step"]))
        if action == "add":
            limit = data.draw(st.integers(1, 5))
            scheduler.add(EngineRequest(f"r{turn}", prompt(limit)))
            added.append(f"r{turn}")
        elif added and action == "abort":
            victim = data.draw(st.sampled_from(added))
            ends[victim] += scheduler.abort(victim)
        elif added and action == "read":
            read_frames(scheduler, data.draw(st.sampled_from(added)))
        elif action == "step":
            plan = scheduler.schedule()
            checker.take(plan)
            stopping = (
                frozenset(data.draw(st.sets(st.sampled_from(plan.decode_slots))))
                if plan.decode_slots
                else frozenset()
            )
            for request_id, event in scheduler.update(plan, frames_for(plan, stopping)):
                ends[request_id] += isinstance(event, Ended)
        scheduler.check_integrity()
    for request_id in added:
        ends[request_id] += scheduler.abort(request_id)
    checker.take(scheduler.schedule())
    scheduler.check_integrity()
    assert not checker.held
    assert not scheduler.has_work
    assert ends == dict.fromkeys(added, 1)


def test_requests_start_in_order_of_arrival() -> None:
    scheduler = Scheduler(1)
    started = []
    for name in ("a", "b", "c"):
        scheduler.add(EngineRequest(name, prompt(max_frames=1)))
    for _ in range(3):
        plan = scheduler.schedule()
        started += [request_id for request_id, _ in scheduler.update(plan, frames_for(plan))]
    assert started == ["a", "a", "b", "b", "c", "c"]


def test_limit_is_reported_as_length_and_stop_as_stop() -> None:
    scheduler = Scheduler(2)
    scheduler.add(EngineRequest("limited", prompt(max_frames=2)))
    scheduler.add(EngineRequest("stopping", prompt(max_frames=2)))
    first = scheduler.schedule()
    scheduler.update(first, frames_for(first))
    second = scheduler.schedule()
    events = scheduler.update(second, frames_for(second, stopped=frozenset({1})))
    assert events == [
        ("limited", FrameReady(0)),
        ("limited", Ended("length")),
        ("stopping", Ended("stop")),
    ]


def test_unread_frames_hold_a_request_back_until_they_are_read() -> None:
    scheduler = Scheduler(1, limits=SchedulerLimits(max_unread_frames=2))
    scheduler.add(EngineRequest("slow", prompt()))
    for _ in range(2):
        plan = scheduler.schedule()
        scheduler.update(plan, frames_for(plan))
    assert not scheduler.has_work
    read_frames(scheduler, "slow")
    assert scheduler.schedule().decode_slots == (0,)


@pytest.mark.parametrize("arrives", ["before its start", "after its start"])
def test_a_request_without_text_waits_in_its_slot(arrives: str) -> None:
    scheduler = Scheduler(1)
    scheduler.add(EngineRequest("open", prompt(allowed=0)))
    piece = Piece(data="text", num_frames_allowed=1)
    if arrives == "after its start":
        assert scheduler.schedule().decode_slots == ()
    scheduler.append("open", piece)
    plan = scheduler.schedule()
    assert (plan.decode_slots, [append.piece for append in plan.appends]) == ((0,), [piece])
    scheduler.update(plan, frames_for(plan))
    assert not scheduler.has_work
    scheduler.append("open", Piece(data="", num_frames_allowed=None))
    assert scheduler.has_work


CACHE = CacheShape(num_blocks=16, block_positions=4, max_positions=64)


def paged(
    name: str,
    num_positions: int,
    *,
    voice: int = 0,
    num_frames: int = 50,
    fails_at: int | None = None,
) -> EngineRequest:
    positions = tuple(voice * 1000 + position for position in range(num_positions))
    return EngineRequest(name, strict_prompt(Words(name, positions, num_frames, fails_at)))


def run(scheduler: Scheduler, device: StrictDevice, num_steps: int) -> list[StepPlan]:
    plans = []
    for _ in range(num_steps):
        plan = scheduler.schedule()
        plans.append(plan)
        scheduler.update(plan, device.launch(plan).result())
        scheduler.check_integrity()
    return plans


def test_a_long_prompt_is_computed_in_parts_beside_the_frames_of_others() -> None:
    limits = SchedulerLimits(max_prefill_positions=8)
    scheduler, device = Scheduler(2, cache=CACHE, limits=limits), StrictDevice(2, CACHE)
    scheduler.add(paged("short", 3, voice=1))
    run(scheduler, device, 1)
    scheduler.add(paged("long", 20, voice=2))
    plans = run(scheduler, device, 3)
    parts = [(each.start, each.end) for plan in plans for each in plan.prefills]
    assert parts == [(0, 8), (8, 16), (16, 20)]
    assert [plan.decode_slots for plan in plans] == [(0,), (0,), (0, 1)]


def test_a_prompt_is_parted_between_blocks() -> None:
    limits = SchedulerLimits(max_prefill_positions=14)
    scheduler, device = Scheduler(3, cache=CACHE, limits=limits), StrictDevice(3, CACHE)
    scheduler.add(paged("first", 21, voice=1))
    scheduler.add(paged("second", 6, voice=2))
    plans = run(scheduler, device, 4)
    parts = [[(each.start, each.end) for each in plan.prefills] for plan in plans]
    assert parts == [[(0, 12)], [(12, 21), (0, 4)], [(4, 6)], []]


def test_a_preempted_request_is_computed_again_in_parts_beside_the_frames_of_others() -> None:
    cache = CacheShape(num_blocks=14, block_positions=4, max_positions=48, replayed_positions=3)
    scheduler, device = Scheduler(2, cache=cache), StrictDevice(2, cache)
    for voice, name in enumerate(["first", "second"], 1):
        scheduler.add(paged(name, 6, voice=voice, num_frames=30))
    plans = run(scheduler, device, 80)
    assert device.num_resumed
    assert not scheduler.num_live
    again = [each for plan in plans for each in plan.prefills if each.start >= 6]
    assert len(again) > 3
    assert max(each.end - each.start for each in again) == 3


def test_an_equal_beginning_is_computed_once_and_only_after_it_was_launched() -> None:
    scheduler, device = Scheduler(4, cache=CACHE), StrictDevice(4, CACHE)
    scheduler.add(paged("first", 10, voice=1))
    scheduler.add(paged("twin", 10, voice=1))  # in the same step: nothing to share yet
    scheduler.add(paged("other", 10, voice=2))
    (plan,) = run(scheduler, device, 1)
    assert [each.start for each in plan.prefills] == [0, 0, 0]
    scheduler.add(paged("later", 8, voice=1))
    (plan,) = run(scheduler, device, 1)
    assert plan.prefills == ()  # all of it is shared
    assert 3 in plan.decode_slots
    for name in ("first", "twin", "other", "later"):
        assert scheduler.abort(name)
    scheduler.add(paged("after all ended", 10, voice=1))
    (plan,) = run(scheduler, device, 1)
    assert [(each.start, each.end) for each in plan.prefills] == [(8, 10)]


def test_blocks_of_a_request_that_failed_are_not_shared() -> None:
    scheduler, device = Scheduler(4, cache=CACHE), StrictDevice(4, CACHE)
    scheduler.add(paged("bad", 10, voice=1, fails_at=1))
    run(scheduler, device, 1)
    scheduler.add(paged("sharing", 10, voice=1))
    (plan,) = run(scheduler, device, 1)  # in which the first one fails
    assert [(each.start, each.end) for each in plan.prefills] == [(8, 10)]
    scheduler.add(paged("later", 10, voice=1))
    (plan,) = run(scheduler, device, 1)
    assert [(each.start, each.end) for each in plan.prefills] == [(0, 10)]
    scheduler.add(paged("last", 10, voice=1))
    (plan,) = run(scheduler, device, 1)  # what is computed anew is shared again
    assert [(each.start, each.end) for each in plan.prefills] == [(8, 10)]


def test_cancelling_frees_slot_and_blocks_at_once() -> None:
    scheduler, device = Scheduler(1, cache=CACHE), StrictDevice(1, CACHE)
    scheduler.add(paged("large", 60, voice=1))
    in_flight = scheduler.schedule()
    step = device.launch(in_flight)
    scheduler.add(paged("next", 60, voice=2))
    assert scheduler.abort("large")
    scheduler.check_integrity()
    plan = scheduler.schedule()
    assert plan.releases == (0,)
    assert [each.prompt.data.name for each in plan.starts] == ["next"]
    device.launch(plan)
    assert scheduler.update(in_flight, step.result()) == []


def test_the_stream_with_the_most_audio_buffered_is_preempted() -> None:
    now = [0.0]
    small = CacheShape(num_blocks=8, block_positions=4, max_positions=32)
    scheduler = Scheduler(2, cache=small, codec=CODEC, clock=lambda: now[0])
    device = StrictDevice(2, small, CODEC)
    scheduler.add(paged("ahead", 3, voice=1))
    run(scheduler, device, 8)
    scheduler.add(paged("behind", 3, voice=2))
    now[0] = 0.1
    resumed = []
    for _ in range(200):
        (plan,) = run(scheduler, device, 1)
        resumed += [each.prompt.data.name for each in plan.starts if each.frames]
        now[0] += 0.02
        if not scheduler.num_live:
            break
    assert resumed == ["ahead"]
    assert not scheduler.num_live


def test_what_does_not_even_fit_alone_is_refused() -> None:
    scheduler = Scheduler(1, cache=CACHE)
    with pytest.raises(InvalidRequestError, match="takes 64 positions"):
        scheduler.add(paged("huge", 64))
    scheduler.add(paged("fits", 63))
    assert scheduler.num_live == 1


def test_a_request_ends_by_length_where_positions_end() -> None:
    scheduler, device = Scheduler(1, cache=CACHE), StrictDevice(1, CACHE)
    scheduler.add(paged("endless", 60, num_frames=99))
    events = []
    for _ in range(4):
        plan = scheduler.schedule()
        events += [event for _, event in scheduler.update(plan, device.launch(plan).result())]
    assert events[-1] == Ended("length")
    assert len(events) == 4 + 1


@given(st.integers(0, 40), st.none() | st.integers(1, 40), st.none() | st.integers(1, 5), POLICIES)
def test_audio_is_whole_however_it_is_cut(
    num_frames: int, limit: int | None, first: int | None, policy: PlaybackPolicy
) -> None:
    scheduler, device = Scheduler(1, codec=CODEC, policy=policy), StrictDevice(1, codec=CODEC)
    words = strict_prompt(Words("a", (), num_frames), max_frames=limit)
    scheduler.add(EngineRequest("a", replace(words, first_chunk_frames=first)))
    events: list[EngineEvent] = []
    for _ in range(60):
        plan = scheduler.schedule()
        events += [event for _, event in scheduler.update(plan, device.launch(plan).result())]
    *chunks, end = events
    num_made = num_frames if limit is None else min(limit, num_frames)
    assert heard_values(chunks) == [frame_value("a", number) for number in range(num_made)]
    is_cut = limit is not None and limit <= num_frames
    assert end == Ended("length" if is_cut else "stop")
    assert not device.rows or scheduler.has_work
    if chunks:
        assert isinstance(chunks[0], AudioChunk)
        sizes = CODEC.up_to(policy.largest_frames).chunk_sizes
        wanted = round_up(first or policy.first_frames, sizes)
        assert chunks[0].num_frames == wanted or num_made <= wanted
        largest = policy.largest_frames or sizes[-1]
        assert all(isinstance(each, AudioChunk) and each.num_frames <= largest for each in chunks)


@given(st.integers(1, 40), st.data())
def test_a_resumed_request_goes_on_after_its_frames(num_frames: int, data: st.DataObject) -> None:
    num_made = data.draw(st.integers(0, num_frames))
    scheduler, device = Scheduler(1, cache=CACHE, codec=CODEC), StrictDevice(1, CACHE, CODEC)
    request = paged("a", 6, num_frames=num_frames)
    request.resume([frame_value("a", number) for number in range(num_made)])
    scheduler.add(request)
    events: list[EngineEvent] = []
    while scheduler.num_live:
        plan = scheduler.schedule()
        events += [event for _, event in scheduler.update(plan, device.launch(plan).result())]
        scheduler.check_integrity()
    *chunks, end = events
    assert heard_values(chunks) == [frame_value("a", n) for n in range(num_made, num_frames)]
    assert end == Ended("stop")


def test_live_requests_go_before_offline_ones_which_still_get_their_share() -> None:
    now = [0.0]
    scheduler, device = Scheduler(2, clock=lambda: now[0]), StrictDevice(2)
    for number in range(3):
        scheduler.add(EngineRequest(f"offline{number}", strict_prompt(Words("b", (), 99)), False))
    run(scheduler, device, 2)
    for number in range(4):
        scheduler.add(EngineRequest(f"live{number}", strict_prompt(Words("l", (), 20)), True))
    (plan,) = run(scheduler, device, 1)
    assert [each.prompt.data.name for each in plan.starts] == ["l"]  # one slot is reserved
    run(scheduler, device, 100)
    assert not scheduler.num_live


def test_a_live_request_starts_beside_an_offline_one_even_where_a_step_takes_too_long() -> None:
    now = [0.0]
    scheduler = Scheduler(8, codec=CODEC, clock=lambda: now[0])
    device = StrictDevice(8, codec=CODEC)
    for num_rows in 100 * (1, 2, 4, 8):
        scheduler.costs.observe(StepShape(num_rows), 0.2 * num_rows)
    scheduler.add(EngineRequest("offline", strict_prompt(Words("offline", (), 100)), is_live=False))

    def step() -> tuple[str, ...]:
        now[0] += 0.2
        plan = scheduler.schedule()
        events = scheduler.update(plan, device.launch(plan).result())
        for name, event in events:
            if isinstance(event, AudioChunk):
                read_frames(scheduler, name, event.num_frames)
        return tuple(each.prompt.data.name for each in plan.starts)

    assert step() == ("offline",)
    scheduler.add(EngineRequest("listener", strict_prompt(Words("listener", (), 100))))
    assert step() == ("listener",)
    step()
    scheduler.abort("listener")
    scheduler.add(EngineRequest("next", strict_prompt(Words("next", (), 100))))
    assert step() == ("next",)
    scheduler.abort("next")
    assert scheduler.admission.forecast.num_streams == 1, "the next would be refused"
    assert scheduler.abort("offline"), "it has ended"


def test_equal_requests_start_in_order_of_arrival_even_if_some_need_more_room() -> None:
    scheduler, device = Scheduler(4, cache=CACHE), StrictDevice(4, CACHE)
    sizes = [40, 30, 3, 50, 2, 20]
    for number, size in enumerate(sizes):
        scheduler.add(paged(f"r{number}", size, voice=number, num_frames=6))
    plans = run(scheduler, device, 60)
    started = [each.prompt.data.name for plan in plans for each in plan.starts if not each.frames]
    assert list(dict.fromkeys(started)) == [f"r{number}" for number in range(len(sizes))]
    assert not scheduler.num_live


@given(st.integers(0, 500), st.integers(0, 500), st.none() | st.integers(0, 500))
def test_no_frame_is_planned_that_would_overwrite_one_not_yet_decoded(
    num_read: int, num_decoded: int, allowed: int | None
) -> None:
    request = EngineRequest("r", prompt(max_frames=400, allowed=allowed))
    request.num_frames_read, request.codec.num_decoded = num_read, num_decoded
    request.arrive(0.0, 128, has_codec=True)
    assert request.planning_limit <= num_decoded + FRAME_STORE_FRAMES
    assert request.planning_limit <= min(400, num_read + 128, 400 if allowed is None else allowed)
    request.arrive(0.0, 128, has_codec=False)
    assert request.planning_limit == min(400, num_read + 128, 400 if allowed is None else allowed)
