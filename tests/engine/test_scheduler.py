"""The scheduler over random lives of requests: no slot lost, exactly one end each, order kept."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engine.plan import StepOutput, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import Scheduler
from antiphon.models.base import Piece, Prompt
from antiphon.types import Ended, FrameReady, Sampling


def prompt(max_frames: int | None = None, allowed: int | None = None) -> Prompt:
    sampling = Sampling(max_frames=max_frames)
    return Prompt(data=None, num_tokens=1, seed=0, sampling=sampling, num_frames_allowed=allowed)


def frames_for(plan: StepPlan, stopped: frozenset[int] = frozenset()) -> StepOutput:
    return StepOutput({slot: slot for slot in plan.slots if slot not in stopped}, stopped)


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
        assert set(plan.slots) <= self.held
        assert {append.slot for append in plan.appends} <= self.held
        assert len(set(plan.slots)) == len(plan.slots)


@given(st.data(), st.integers(1, 4))
def test_random_lives_lose_no_slot_and_end_exactly_once(data: st.DataObject, slots: int) -> None:
    scheduler, checker = Scheduler(slots, max_unread_frames=3), Checker()
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
            scheduler.read(data.draw(st.sampled_from(added)))
        elif action == "step":
            plan = scheduler.schedule()
            checker.take(plan)
            stopping = (
                frozenset(data.draw(st.sets(st.sampled_from(plan.slots))))
                if plan.slots
                else frozenset()
            )
            for request_id, event in scheduler.update(plan, frames_for(plan, stopping)):
                ends[request_id] += isinstance(event, Ended)
        scheduler.check_integrity()
    for request_id in scheduler.open_ids:
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
    scheduler = Scheduler(1, max_unread_frames=2)
    scheduler.add(EngineRequest("slow", prompt()))
    for _ in range(2):
        plan = scheduler.schedule()
        scheduler.update(plan, frames_for(plan))
    assert not scheduler.has_work
    scheduler.read("slow")
    assert scheduler.schedule().slots == (0,)


@pytest.mark.parametrize("arrives", ["before its start", "after its start"])
def test_a_request_without_text_waits_in_its_slot(arrives: str) -> None:
    scheduler = Scheduler(1)
    scheduler.add(EngineRequest("open", prompt(allowed=0)))
    piece = Piece(data="text", num_frames_allowed=1)
    if arrives == "after its start":
        assert scheduler.schedule().slots == ()
    scheduler.append("open", piece)
    plan = scheduler.schedule()
    assert (plan.slots, [append.piece for append in plan.appends]) == ((0,), [piece])
    scheduler.update(plan, frames_for(plan))
    assert not scheduler.has_work
    scheduler.append("open", Piece(data="", num_frames_allowed=None))
    assert scheduler.has_work
