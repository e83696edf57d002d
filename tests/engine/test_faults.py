"""A runner ends single requests: at a limit, with their last frame, or by a fault, without one."""

import asyncio
from contextlib import aclosing
from typing import Any

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Ended, FrameReady
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.plan import StepOutput, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import ROW_BUCKETS, Done, PendingStep
from antiphon.engine.scheduler import Scheduler
from antiphon.errors import EngineError


def prompt(fate: str) -> Prompt:
    return Prompt(data=fate, num_tokens=1, seed=0)


class FatefulRunner:
    """Makes three frames for each request, the last of which brings its fate."""

    num_slots = 2
    row_buckets = ROW_BUCKETS
    cache = None
    codec = None

    def __init__(self) -> None:
        self.slots: dict[int, tuple[str, int]] = {}

    def launch(self, plan: StepPlan) -> PendingStep:
        for slot in plan.releases:
            del self.slots[slot]
        for start in plan.starts:
            self.slots[start.slot] = (start.prompt.data, 0)
        ends: dict[str, set[int]] = {"stop": set(), "length": set(), "error": set()}
        frames: dict[int, int] = {}
        for slot in plan.decode_slots:
            fate, num_frames = self.slots[slot]
            self.slots[slot] = (fate, num_frames + 1)
            if num_frames == 2:
                ends[fate].add(slot)
            if num_frames < 2 or fate == "length":
                frames[slot] = num_frames
        return Done(StepOutput(frames, frozenset(ends["stop"]), frozenset(ends["length"])))

    def close(self) -> None:
        """Nothing to free."""


def test_a_limit_comes_after_the_frame_and_a_fault_instead_of_it() -> None:
    scheduler = Scheduler(3)
    for name in "abc":
        scheduler.add(EngineRequest(name, prompt(name)))
    plan = scheduler.schedule()
    output = StepOutput({0: "x", 1: "y"}, lengths=frozenset({1}))
    assert scheduler.update(plan, output) == [
        ("a", FrameReady("x")),
        ("b", FrameReady("y")),
        ("b", Ended("length")),
        ("c", Ended("error")),
    ]
    assert scheduler.num_live == 1
    assert scheduler.schedule().releases == (1, 2)
    scheduler.check_integrity()


async def test_a_fault_of_one_request_ends_it_alone() -> None:
    async def hear(engine: AsyncEngine, name: str, fate: str) -> list[Any]:
        async with aclosing(engine.generate(name, prompt(fate))) as events:
            return [event async for event in events]

    engine = AsyncEngine(FatefulRunner())
    fates = ["stop", "error", "length", "error", "stop"]
    heard = await asyncio.gather(
        *(hear(engine, f"r{n}", fate) for n, fate in enumerate(fates)),
        return_exceptions=True,
    )
    for fate, events in zip(fates, heard, strict=True):
        if fate == "error":
            assert isinstance(events, EngineError)
        else:
            num_frames = 3 if fate == "length" else 2
            frames = [FrameReady(number) for number in range(num_frames)]
            assert events == [*frames, Ended(fate)]  # type: ignore[arg-type]
    assert engine.failure is None
    await engine.close()
