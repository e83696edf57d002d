"""The engine's thread: streams end once, closing aborts, a fault reaches everybody."""

import asyncio
import contextlib
from contextlib import aclosing
from typing import Any

import pytest

from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.plan import StepOutput, StepPlan
from antiphon.engine.runner import Done
from antiphon.errors import EngineError, InvalidRequestError
from antiphon.models.base import Piece, Prompt
from antiphon.types import Ended, FrameReady, Sampling


class CountingRunner:
    """Makes 0, 1, 2 ... for each request, stops at ``prompt.data``, fails at a given frame."""

    num_slots = 2

    def __init__(self, fail_at: int | None = None) -> None:
        self.fail_at = fail_at
        self.slots: dict[int, tuple[Prompt, int]] = {}
        self.num_frames_made = 0
        self.is_closed = False

    def launch(self, plan: StepPlan) -> Done:
        for slot in plan.releases:
            del self.slots[slot]
        for start in plan.starts:
            self.slots[start.slot] = (start.prompt, 0)
        frames: dict[int, Any] = {}
        stopped = set()
        for slot in plan.slots:
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


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_more_requests_than_slots_all_end_with_their_own_frames() -> None:
    async def main() -> None:
        runner = CountingRunner()
        engine = AsyncEngine(runner)
        results = await asyncio.gather(*(collect(engine, f"r{n}", n) for n in range(12)))
        for num_frames, events in enumerate(results):
            assert events == [*(FrameReady(n) for n in range(num_frames)), Ended("stop")]
        await until(lambda: not runner.slots)
        await engine.close()
        assert runner.is_closed

    asyncio.run(main())


def test_closing_a_stream_frees_its_slot() -> None:
    async def main() -> None:
        runner = CountingRunner()
        engine = AsyncEngine(runner)
        async with aclosing(engine.generate("endless", prompt(None))) as events:
            assert await anext(events) == FrameReady(0)
        await until(lambda: not runner.slots)
        await engine.close()

    asyncio.run(main())


def test_a_reader_that_does_not_read_stops_its_own_request() -> None:
    async def main() -> None:
        runner = CountingRunner()
        engine = AsyncEngine(runner)
        async with aclosing(engine.generate("endless", prompt(None))) as events:
            await anext(events)
            await collect(engine, "other", 1000)
            assert runner.num_frames_made < 1000 + 200
        await engine.close()

    asyncio.run(main())


def test_a_fault_reaches_every_open_and_every_later_request() -> None:
    async def main() -> None:
        engine = AsyncEngine(CountingRunner(fail_at=3))
        calls = [collect(engine, f"r{n}", 10) for n in range(4)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, EngineError) for result in results)
        assert engine.failure == "ValueError: broken on purpose"
        with pytest.raises(EngineError, match="has failed"):
            await collect(engine, "late", 1)
        await engine.close()
        with pytest.raises(EngineError, match="closed"):
            await collect(engine, "later", 1)

    asyncio.run(main())


def test_an_id_that_is_open_is_refused_and_harms_nobody() -> None:
    async def main() -> None:
        engine = AsyncEngine(CountingRunner())
        async with aclosing(engine.generate("same", prompt(None))) as events:
            await anext(events)
            with pytest.raises(InvalidRequestError, match="'same' is open already"):
                await collect(engine, "same", 1)
            assert await anext(events) == FrameReady(1)
        assert len(await collect(engine, "same", 1)) == 2
        await engine.close()

    asyncio.run(main())


def test_closing_the_engine_ends_open_streams() -> None:
    async def main() -> None:
        engine = AsyncEngine(CountingRunner())
        stream = engine.generate("endless", prompt(None))
        await anext(stream)
        await engine.close()
        async with aclosing(stream), asyncio.timeout(10):
            *_, last = [event async for event in stream]
        assert last == Ended("abort")

    asyncio.run(main())


def test_late_text_wakes_a_waiting_request() -> None:
    async def main() -> None:
        engine = AsyncEngine(CountingRunner())
        stream = engine.generate("open", prompt(3, num_frames_allowed=1))
        async with aclosing(stream):
            assert await anext(stream) == FrameReady(0)
            following = asyncio.ensure_future(anext(stream))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(following), 0.05)
            assert not following.done()
            engine.append("open", Piece(data=None, num_frames_allowed=None))
            assert await following == FrameReady(1)
            assert [event async for event in stream] == [FrameReady(2), Ended("stop")]
        await engine.close()

    asyncio.run(main())
