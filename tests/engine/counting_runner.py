"""A runner that counts, and streams of it that are read to their end."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Sampling
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.plan import StepOutput, StepPlan
from antiphon.engine.runner import ROW_BUCKETS, Done, PendingStep


class CountingRunner:
    """Makes 0, 1, 2 ... for each request, stops at ``prompt.data``, fails at a given frame."""

    row_buckets = ROW_BUCKETS
    cache = None
    codec = None

    def __init__(self, fail_at: int | None = None) -> None:
        self.num_slots = 2
        self.fail_at = fail_at
        self.slots: dict[int, tuple[Prompt, int]] = {}
        self.num_frames_made = 0
        self.is_closed = False
        self.num_steps = 0

    def launch(self, plan: StepPlan) -> PendingStep:
        self.num_steps += 1
        for slot in plan.releases:
            del self.slots[slot]
        for start in plan.starts:
            self.slots[start.slot] = (start.prompt, 0)
        frames: dict[int, Any] = {}
        stopped = set()
        for slot in plan.decode_slots:
            prompt, count = self.slots[slot]
            if count == self.fail_at:
                raise ValueError("broken on purpose")
            if count == prompt.data:
                stopped.add(slot)
                continue
            frames[slot] = count
            self.num_frames_made += 1
            self.slots[slot] = (prompt, count + 1)
        return Done(StepOutput(frames, frozenset(stopped)))

    def close(self) -> None:
        self.is_closed = True


def prompt(num_frames: int | None, **more: Any) -> Prompt:
    return Prompt(data=num_frames, num_tokens=1, seed=0, sampling=Sampling(), **more)


async def collect(engine: AsyncEngine, name: str, num_frames: int) -> list[Any]:
    async with aclosing(engine.generate(name, prompt(num_frames))) as events:
        return [event async for event in events]


async def collect_all(stream: AsyncGenerator[Any, None]) -> list[Any]:
    async with aclosing(stream):
        return [event async for event in stream]
