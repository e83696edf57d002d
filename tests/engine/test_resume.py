"""Requests that were begun elsewhere: exact, in parts, not refused, by their listeners' clocks."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.types import AudioChunk
from antiphon.engine.plan import StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import EngineEvent, Scheduler, SchedulerLimits
from antiphon.errors import OverloadedError
from tests.engine.strict_device import CODEC, StrictDevice, Words, frame_value, heard_values
from tests.engine.strict_device import prompt as strict_prompt
from tests.engine.turns import read_frames


def run(scheduler: Scheduler, device: StrictDevice, num_steps: int) -> Sequence[StepPlan]:
    """Run steps, whose audio is taken at once; return their plans."""
    plans = []
    for _ in range(num_steps):
        plans.append(plan := scheduler.schedule())
        for name, event in scheduler.update(plan, device.launch(plan).result()):
            if isinstance(event, AudioChunk):
                read_frames(scheduler, name, event.num_frames)
    return plans


def resumed(
    name: str, num_made: int, num_frames: int, buffered_s: float | None = None
) -> EngineRequest:
    request = EngineRequest(name, strict_prompt(Words(name, (), num_frames)), returns_frames=True)
    request.resume([frame_value(name, number) for number in range(num_made)], buffered_s)
    return request


@given(st.lists(st.integers(1, 120), min_size=1, max_size=4))
def test_a_decoder_is_given_frames_again_in_parts_while_others_go_on(made: list[int]) -> None:
    num_slots = len(made) + 1
    now = [0.0]
    scheduler = Scheduler(num_slots, codec=CODEC, clock=lambda: now[0])
    device = StrictDevice(num_slots, codec=CODEC)
    scheduler.add(EngineRequest("other", strict_prompt(Words("other", (), 500))))
    run(scheduler, device, 1)
    for number, num_made in enumerate(made):
        scheduler.add(resumed(f"r{number}", num_made, num_made + 20, number * 0.1))
    events: list[tuple[str, EngineEvent]] = []
    while scheduler.num_live > 1:
        now[0] += 0.04
        plan = scheduler.schedule()
        assert any(each.prompt.data.name == "other" for each in plan.starts) or plan.decode_slots
        for name, event in scheduler.update(plan, device.launch(plan).result()):
            events.append((name, event))
            if isinstance(event, AudioChunk):
                read_frames(scheduler, name, event.num_frames)
        scheduler.check_integrity()
    assert device.num_replayed == sum(made)
    for number, num_made in enumerate(made):
        chunks = [each for name, each in events if name == f"r{number}"][:-1]
        expected = [frame_value(f"r{number}", n) for n in range(num_made, num_made + 20)]
        assert heard_values(chunks) == expected
        assert [
            f for each in chunks if isinstance(each, AudioChunk) for f in each.frames
        ] == expected
    others = [each for name, each in events if name == "other"]
    assert not any(each.frames for each in others if isinstance(each, AudioChunk))


def test_resumed_requests_are_never_refused_and_start_by_their_listeners_clocks() -> None:
    limits = SchedulerLimits(admission=AdmissionLimits(max_waiting=0))
    scheduler, device = Scheduler(1, codec=CODEC, limits=limits), StrictDevice(1, codec=CODEC)
    scheduler.add(EngineRequest("first", strict_prompt(Words("first", (), 3))))
    run(scheduler, device, 1)
    with pytest.raises(OverloadedError):
        scheduler.add(EngineRequest("new", strict_prompt(Words("new", (), 3))))
    for name, buffered_s in (("calm", 3.0), ("urgent", 0.1), ("unknown", None), ("usual", 1.0)):
        scheduler.add(resumed(name, 2, 5, buffered_s))
    plans = run(scheduler, device, 60)
    started = [each.prompt.data.name for plan in plans for each in plan.starts]
    assert started == ["urgent", "usual", "calm", "unknown"]
    assert not scheduler.num_live
