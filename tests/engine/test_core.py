"""The engine one step behind its runner: streams are what they would be without the delay."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from antiphon.engine.core import EngineCore
from antiphon.engine.plan import StepOutput, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.models.base import Piece, Prompt
from antiphon.types import Ended, FrameReady, Sampling

NUM_SLOTS = 2


class LateStep:
    """Counts up for each request of a plan; its result is known when it is asked for."""

    def __init__(self, output: StepOutput, is_done: bool) -> None:
        self._output = output
        self.is_done = is_done

    def result(self) -> StepOutput:
        return self._output


class LateRunner:
    """A device: its steps end some time after they are launched. Prompts say when speech stops."""

    num_slots = NUM_SLOTS

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
        for slot in plan.slots:
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
    heard: dict[str, list[FrameReady | Ended]] = defaultdict(list)
    for number, (num_frames, limit) in enumerate(requests):
        core.scheduler.add(request(f"r{number}", num_frames, limit, None))
    turn = 0
    while core.has_work:
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
    while core.has_work:
        core.step()
    assert runner.num_stepped == {"limited": 3, "open": 2}
    core.scheduler.append("open", Piece(data=None, num_frames_allowed=4))
    while core.has_work:
        core.step()
    assert runner.num_stepped["open"] == 4
