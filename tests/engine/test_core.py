"""The engine one step behind its runner: streams are what they would be without the delay."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import Ended, FrameReady, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CacheShape, Prefill, StepOutput, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import ROW_BUCKETS
from antiphon.engine.scheduler import EngineEvent, SchedulerLimits
from antiphon_bench.host import quantile
from tests.clock import Clock
from tests.engine.device_model import DeviceModel
from tests.engine.simulator import SimulatedDevice, SimulatedStep, next_step_s
from tests.engine.turns import has_work

NUM_SLOTS = 2
LAUNCH_S = 0.3e-3


class LateStep:
    """Counts up for each request of a plan; its result is known when it is asked for."""

    def __init__(self, output: StepOutput, is_done: bool) -> None:
        self._output = output
        self.is_done = is_done

    def wait(self) -> None:
        """It is not known whether it is over."""

    def result(self) -> StepOutput:
        return self._output


class LateRunner:
    """A device: its steps end some time after they are launched. Prompts say when speech stops."""

    num_slots = NUM_SLOTS
    row_buckets = ROW_BUCKETS
    cache = None
    codec = None

    def __init__(self, delays: list[bool]) -> None:
        self.delays = delays
        self.slots: dict[int, tuple[Prompt, int]] = {}
        self.num_stepped: dict[str, int] = defaultdict(int)

    def launch(self, plan: StepPlan) -> LateStep:
        for slot in plan.releases:
            del self.slots[slot]
        for start in plan.starts:
            assert start.slot not in self.slots
            self.slots[start.slot] = (start.prompt, 0)
        frames, stopped = {}, set()
        for slot in plan.decode_slots:
            prompt, count = self.slots[slot]
            name, num_frames = prompt.data
            self.num_stepped[name] += 1
            self.slots[slot] = (prompt, count + 1)
            if count >= num_frames:
                stopped.add(slot)
            else:
                frames[slot] = (name, count)
        is_done = self.delays.pop() if self.delays else True
        return LateStep(StepOutput(frames, frozenset(stopped)), is_done)

    def close(self) -> None:
        """Nothing to free."""


def request(name: str, num_frames: int, limit: int | None, allowed: int | None) -> EngineRequest:
    sampling = Sampling(max_frames=limit)
    prompt = Prompt(
        data=(name, num_frames), num_tokens=1, seed=0, sampling=sampling, num_frames_allowed=allowed
    )
    return EngineRequest(name, prompt)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(1, 4)), min_size=1, max_size=6),
    st.lists(st.booleans(), max_size=60),
    st.sets(st.integers(0, 5)),
)
def test_streams_are_whole_in_order_and_their_own(
    requests: list[tuple[int, int | None]], delays: list[bool], aborted: set[int]
) -> None:
    core = EngineCore(LateRunner(delays))
    heard: dict[str, list[EngineEvent]] = defaultdict(list)
    for number, (num_frames, limit) in enumerate(requests):
        core.scheduler.add(request(f"r{number}", num_frames, limit, None))
    turn = 0
    while has_work(core):
        for name, event in core.step():
            heard[name].append(event)
        if turn in aborted and core.scheduler.abort(f"r{turn}"):
            heard[f"r{turn}"].append(Ended("abort"))
        turn += 1
    core.scheduler.check_integrity()
    for number, (num_frames, limit) in enumerate(requests):
        name = f"r{number}"
        *frames, end = heard[name]
        assert frames == [FrameReady((name, count)) for count in range(len(frames))]
        if end != Ended("abort"):
            is_cut = limit is not None and limit <= num_frames
            assert end == Ended("length" if is_cut else "stop")
            assert len(frames) == (limit if is_cut else num_frames)


@given(st.lists(st.booleans(), max_size=20))
def test_no_frame_is_launched_beyond_the_limit_or_before_its_text(delays: list[bool]) -> None:
    runner = LateRunner(delays)
    core = EngineCore(runner)
    core.scheduler.add(request("limited", 9, 3, None))
    core.scheduler.add(request("open", 9, None, 2))
    while has_work(core):
        core.step()
    assert runner.num_stepped == {"limited": 3, "open": 2}
    core.scheduler.append("open", Piece(data=None, num_frames_allowed=4))
    while has_work(core):
        core.step()
    assert runner.num_stepped["open"] == 4


class TimedDevice:
    """A device that makes frames without end, each step as long as the next of a list says."""

    num_slots = 4
    row_buckets = ROW_BUCKETS
    cache = None
    codec = None

    def __init__(self, clock: Clock, durations_s: list[float]) -> None:
        self.clock = clock
        self.durations_s = durations_s
        self.free_s = 0.0
        self.idle_s = 0.0
        self.longest_idle_s = 0.0
        self.launches: list[tuple[float, StepPlan]] = []

    def launch(self, plan: StepPlan) -> SimulatedStep:
        self.clock.now_s += LAUNCH_S
        begins_s = max(self.free_s, self.clock.now_s)
        if self.launches:
            self.idle_s += begins_s - self.free_s
            self.longest_idle_s = max(self.longest_idle_s, begins_s - self.free_s)
        self.free_s = begins_s + self.durations_s[len(self.launches) % len(self.durations_s)]
        self.launches.append((self.clock.now_s, plan))
        output = StepOutput(dict.fromkeys(plan.decode_slots, 0))
        return SimulatedStep(self.clock, self.free_s, output)

    def close(self) -> None:
        """Nothing to free."""


def run_steps(core: EngineCore, clock: Clock, number: int) -> None:
    for _ in range(number):
        step_s = next_step_s(core, clock)
        assert step_s is not None
        clock.now_s = step_s
        core.step()


@given(st.lists(st.floats(5e-3, 50e-3), min_size=1, max_size=3), st.floats(0.0, 1.0))
def test_a_step_is_launched_late_but_the_device_hardly_ever_runs_dry(
    durations_s: list[float], part: float
) -> None:
    clock = Clock()
    device = TimedDevice(clock, durations_s)
    core = EngineCore(device, limits=SchedulerLimits(max_unread_frames=10**6), clock=clock)
    core.scheduler.add(request("first", 0, None, None))
    run_steps(core, clock, 100)
    assert device.idle_s < 0.15 * clock.now_s
    wait_s = core.wait_s()
    assert wait_s is not None
    if len(durations_s) == 1:
        assert wait_s > 0.5 * durations_s[0]
    clock.now_s += wait_s * part  # a request arrives while a step is in flight
    core.scheduler.add(request("second", 0, None, None))
    core.wake()
    run_steps(core, clock, 1)
    assert [start.prompt.data[0] for start in device.launches[-1][1].starts] == ["second"]


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_a_wrong_expectation_costs_no_more_than_a_launch(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    durations_s = [12e-3, 3e-3, 40e-3]
    clock = Clock()
    device = TimedDevice(clock, durations_s)
    core = EngineCore(device, limits=SchedulerLimits(max_unread_frames=10**6), clock=clock)
    expected_s = factor * sum(durations_s) / len(durations_s)
    monkeypatch.setattr(core.scheduler.costs, "step_s", lambda shape: expected_s)
    core.scheduler.add(request("first", 0, None, None))
    run_steps(core, clock, 300)
    assert device.longest_idle_s <= LAUNCH_S * 1.001
    gaps = core.scheduler.stats.host_seconds["gap"]
    assert sum(gaps.counts) >= 290
    longest_s = quantile(gaps, 1.0)
    assert longest_s is not None
    assert longest_s <= 0.4e-3, "counted in a bucket beyond that of a launch"
    assert (device.idle_s > 0.0) == (factor > 1), "a step was not launched early"


def test_a_plan_with_prompts_is_begun_as_much_earlier_as_it_takes_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    device = TimedDevice(clock, [6e-3])
    core = EngineCore(device, limits=SchedulerLimits(max_unread_frames=10**6), clock=clock)
    core.scheduler.add(request("first", 0, None, None))
    has_prompts = False
    monkeypatch.setattr(type(core.scheduler), "has_prompts", property(lambda _: has_prompts))
    schedule = core.scheduler.schedule

    def slow_with_prompts() -> StepPlan:
        clock.now_s += 2e-3 if has_prompts else 0.0
        plan = schedule()
        return replace(plan, prefills=(Prefill(0, 0, 1),)) if has_prompts else plan

    monkeypatch.setattr(core.scheduler, "schedule", slow_with_prompts)
    run_steps(core, clock, 200)
    for number in range(200):
        if number == 100:
            device.idle_s = 0.0
        has_prompts = number % 2 == 0
        core.wake()
        run_steps(core, clock, 1)
    assert device.idle_s < 0.1e-3 * 100, "the longer launch comes late"
    has_prompts = False
    wait_s = core.wait_s()
    assert wait_s is not None
    has_prompts = True
    earlier_s = core.wait_s()
    assert earlier_s is not None
    assert wait_s - earlier_s > 1.5e-3


def test_a_request_does_not_wait_for_a_step_after_which_there_is_nothing_to_do() -> None:
    clock = Clock()
    device = TimedDevice(clock, [0.01])
    core = EngineCore(device, clock=clock)
    core.scheduler.add(request("open", 9, None, 1))
    core.step()
    assert core.wait_s() is None
    assert next_step_s(core, clock) == device.free_s
    clock.now_s += 5e-3
    core.scheduler.add(request("next", 0, None, None))
    core.wake()
    run_steps(core, clock, 1)
    assert [start.prompt.data[0] for start in device.launches[-1][1].starts] == ["next"]
    assert device.idle_s == 0.0


def test_the_end_of_a_step_is_known_from_whoever_waited_for_it() -> None:
    clock = Clock()
    core = EngineCore(TimedDevice(clock, [0.01]), clock=clock)
    core.scheduler.add(request("first", 0, None, None))
    core.step()
    step, ends_s = core.awaited, clock.now_s + 0.01
    assert isinstance(step, SimulatedStep)
    clock.now_s = ends_s + 0.1
    core.note_end(step, ends_s)
    core.step()
    steps_s = core.scheduler.stats.step_seconds["decode"]
    assert steps_s.total == pytest.approx(0.01, abs=LAUNCH_S)
    assert core.scheduler.stats.host_seconds["gap"].total == pytest.approx(0.1 + LAUNCH_S)
    core.note_end(step, 0.0)  # its result has been taken


def test_a_step_that_only_prefills_has_a_duration_of_its_own() -> None:
    clock, model = Clock(), DeviceModel(prefill_s=0.02, host_s=0.0)
    device = SimulatedDevice(clock, 2, model=model, cache=CacheShape(64, 16, 512))
    core = EngineCore(device, limits=SchedulerLimits(max_prefill_positions=64), clock=clock)
    prompt = Prompt(data=3, num_tokens=1, seed=0, sampling=Sampling(), num_positions=128)
    core.scheduler.add(EngineRequest("long", prompt))
    while has_work(core):
        clock.now_s += core.wait_s() or 0.0
        core.step()
    steps_s = core.scheduler.stats.step_seconds
    assert sum(steps_s["prefill"].counts) == 1  # the other half is computed with the first frame
    assert steps_s["prefill"].total == pytest.approx(0.02)
    assert sum(steps_s["mixed"].counts) == 1


def test_an_engine_with_nothing_to_do_waits_for_something_to_happen() -> None:
    clock = Clock()
    core = EngineCore(TimedDevice(clock, [0.01]), clock=clock)
    assert core.wait_s() is None
    core.scheduler.add(request("open", 9, None, 0))
    assert core.wait_s() == 0.0
    core.step()
    while has_work(core):
        core.step()
    assert core.wait_s() is None
    core.scheduler.append("open", Piece(data=None, num_frames_allowed=1))
    assert core.wait_s() == 0.0
