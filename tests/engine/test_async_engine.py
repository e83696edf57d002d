"""The engine's thread: streams end once, closing one frees its slot, and refusals come at once."""

import asyncio
import contextlib
import threading
from contextlib import aclosing
from typing import Any

import pytest

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.prompt import Admitted, Piece, Prompt
from antiphon.contracts.types import Ended, FrameReady, Sampling
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.plan import CacheShape, StepPlan
from antiphon.engine.runner import PendingStep
from antiphon.engine.scheduler import SchedulerLimits
from antiphon.errors import EngineFailedError, InvalidRequestError, OverloadedError
from antiphon.telemetry.stage_status import StageStatus
from tests.engine.counting_runner import CountingRunner, collect, collect_all, prompt
from tests.engine.strict_device import CODEC, StrictDevice, Words, frame_value, heard_values
from tests.engine.strict_device import prompt as strict_prompt
from tests.loops import until


class Loop(asyncio.SelectorEventLoop):
    """Counts what other threads ask of it."""

    num_calls = 0

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, **more: Any
    ) -> asyncio.Handle:
        self.num_calls += 1
        return super().call_soon_threadsafe(callback, *args, **more)


def watch_commands(engine: AsyncEngine) -> list[set[str]]:
    """Return a list that gets, for each command from now on, the ids that were open then."""
    inbox, puts = engine._commands, list[set[str]]()

    class Watched:
        get = inbox.get

        def put(self, command: Any) -> None:
            puts.append({*engine._open_ids})
            inbox.put(command)

    engine._commands = Watched()  # type: ignore[assignment]
    return puts


async def test_more_requests_than_slots_all_end_with_their_own_frames() -> None:
    runner = CountingRunner()
    engine = AsyncEngine(runner)
    results = await asyncio.gather(*(collect(engine, f"r{n}", n) for n in range(12)))
    for num_frames, events in enumerate(results):
        assert events == [*(FrameReady(n) for n in range(num_frames)), Ended("stop")]
    await until(lambda: not runner.slots)
    await engine.close()
    assert runner.is_closed


async def test_closing_a_stream_frees_its_slot() -> None:
    runner = CountingRunner()
    engine = AsyncEngine(runner)
    async with aclosing(engine.generate("endless", prompt(None))) as events:
        assert await anext(events) == FrameReady(0)
    await until(lambda: not runner.slots)
    await engine.close()


async def test_a_reader_that_does_not_read_stops_its_own_request() -> None:
    runner = CountingRunner()
    engine = AsyncEngine(runner)
    async with aclosing(engine.generate("endless", prompt(None))) as events:
        await anext(events)
        await collect(engine, "other", 1000)
        assert runner.num_frames_made < 1000 + 200
    await engine.close()


async def test_reading_wakes_the_engine_only_if_it_waits_for_that() -> None:
    runner = CountingRunner()
    engine = AsyncEngine(runner)
    puts = watch_commands(engine)
    max_unread = SchedulerLimits().max_unread_frames
    async with aclosing(engine.generate("endless", prompt(None))) as events:
        for _ in range(3):
            num_made = runner.num_frames_made
            for _ in range(max_unread):
                await anext(events)
            await until(lambda num_made=num_made: runner.num_frames_made > num_made)
        puts.clear()
        await collect(engine, "other", max_unread - 1)
        assert len(puts) == 1, "reading woke the engine, which did not wait for that"
    await engine.close()


async def test_an_id_that_is_open_is_refused_and_harms_no_other() -> None:
    engine = AsyncEngine(CountingRunner())
    async with aclosing(engine.generate("same", prompt(None))) as events:
        await anext(events)
        with pytest.raises(InvalidRequestError, match="'same' is open already"):
            await collect(engine, "same", 1)
        assert await anext(events) == FrameReady(1)
    assert len(await collect(engine, "same", 1)) == 2
    await engine.close()


async def test_an_id_is_free_again_only_after_its_request_was_dropped() -> None:
    engine = AsyncEngine(CountingRunner())
    puts = watch_commands(engine)
    stream = engine.generate("one", prompt(None))
    await anext(stream)
    await stream.aclose()
    assert all("one" in each for each in puts), (
        "another loop could have taken the id, and been dropped with it"
    )
    num_commands = len(puts)
    await collect(engine, "one", 0)
    assert len(puts) == num_commands + 1, "a command for a request that has ended"
    await engine.close()


async def test_a_request_that_is_resumed_with_all_of_its_frames_ends_at_once() -> None:
    engine = AsyncEngine(CountingRunner())
    full = Prompt(data=9, num_tokens=1, seed=0, sampling=Sampling(max_frames=3))
    assert await collect_all(engine.generate("full", full, resume_frames=(0, 1, 2))) == [
        Ended("length")
    ]
    await engine.close()


async def test_late_text_wakes_a_waiting_request() -> None:
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


async def test_audio_arrives_whole_from_a_runner_that_decodes() -> None:
    cache = CacheShape(num_blocks=40, block_positions=4, max_positions=200)
    engine = AsyncEngine(StrictDevice(3, cache, CODEC))

    async def hear(name: str, num_frames: int) -> list[int]:
        words = Words(name, tuple(range(5)), num_frames)
        is_live = num_frames % 2 == 0
        stream = engine.generate(name, strict_prompt(words), is_live=is_live)
        async with aclosing(stream):
            *chunks, end = [event async for event in stream]
        assert end == Ended("stop")
        return heard_values(chunks)

    heard = await asyncio.gather(*(hear(f"r{n}", 9 * n) for n in range(9)))
    for number, values in enumerate(heard):
        assert values == [frame_value(f"r{number}", each) for each in range(9 * number)]
    await engine.close()


async def test_refusals_come_from_the_door() -> None:
    cache = CacheShape(num_blocks=4, block_positions=4, max_positions=16)
    limits = SchedulerLimits(admission=AdmissionLimits(max_waiting=1))
    device = StrictDevice(1, cache)
    engine = AsyncEngine(device, limits=limits)
    long = strict_prompt(Words("long", tuple(range(16)), 1))
    with pytest.raises(InvalidRequestError, match="takes 16 positions"):
        await anext(engine.generate("long", long))
    open_text = strict_prompt(Words("open", (1, 2), 5), allowed=1)
    stream = engine.generate("open", open_text)
    await anext(stream)
    waiting = asyncio.ensure_future(collect_all(engine.generate("waiting", open_text)))
    await asyncio.sleep(0.05)
    with pytest.raises(OverloadedError) as caught:
        await anext(engine.generate("refused", open_text))
    assert caught.value.retry_after_s
    # Requests at the same time pass the first check together, and are refused by the second.
    await stream.aclose()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: not device.rows)
    crowd = [engine.generate(f"r{n}", open_text) for n in range(5)]
    heard = [asyncio.ensure_future(anext(each)) for each in crowd]
    await until(lambda: sum(each.done() for each in heard) >= 3)
    for each in heard:
        each.cancel()
    errors = await asyncio.gather(*heard, return_exceptions=True)
    assert sum(isinstance(each, OverloadedError) for each in errors) == 3
    for stream in crowd:
        await stream.aclose()
    await until(lambda: not device.rows)
    await engine.close()


async def test_who_leaves_has_room_at_once_though_a_step_is_under_way() -> None:
    class Holding(CountingRunner):
        def __init__(self) -> None:
            super().__init__()
            self.may_go_on = threading.Event()
            self.may_go_on.set()
            self.is_held = threading.Event()

        def launch(self, plan: StepPlan) -> PendingStep:
            if not self.may_go_on.is_set():
                self.is_held.set()
                assert self.may_go_on.wait(60)
            return super().launch(plan)

    limits = SchedulerLimits(admission=AdmissionLimits(max_waiting=0))
    runner = Holding()
    engine = AsyncEngine(runner, limits=limits)
    streams = [engine.generate(name, prompt(None)) for name in ("a", "b")]
    for each in streams:
        await anext(each)
    with pytest.raises(OverloadedError):
        await anext(engine.generate("c", prompt(1)))
    runner.may_go_on.clear()
    assert await asyncio.to_thread(runner.is_held.wait, 60)
    await streams[0].aclose()
    again = asyncio.ensure_future(collect_all(engine.generate("d", prompt(2))))
    await asyncio.sleep(0)
    async with aclosing(engine.reserve("e")) as kept:
        await anext(kept)
        with pytest.raises(OverloadedError):
            await anext(engine.reserve("f"))
    runner.may_go_on.set()
    assert len(await again) == 3
    await streams[1].aclose()
    await engine.close()


async def test_room_is_kept_until_a_request_of_its_stream_comes_or_nobody_wants_it() -> None:
    limits = SchedulerLimits(admission=AdmissionLimits(max_waiting=0))
    statuses: list[StageStatus] = []
    engine = AsyncEngine(CountingRunner(), limits=limits, publish=statuses.append)
    first, second = engine.reserve("first"), engine.reserve("second")
    assert [await anext(each) for each in (first, second)] == [Admitted()] * 2
    assert statuses[-1].num_open == 2
    for refused in (engine.reserve("third"), engine.generate("third", prompt(1))):
        with pytest.raises(OverloadedError):
            await anext(refused)
    engine.release("first")
    assert await collect_all(engine.generate("first", prompt(3), is_later=True))
    await first.aclose()
    assert statuses[-1].num_open == 1, "it is not freed twice"
    await second.aclose()
    await second.aclose()
    third = engine.reserve("third")
    assert await anext(third) == Admitted()
    await engine.close()
    await third.aclose()
    assert statuses[-1].num_open == 0
    with pytest.raises(EngineFailedError):
        await anext(engine.reserve("late"))


def test_a_step_makes_one_call_into_an_event_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        runner = CountingRunner()
        runner.num_slots = 50
        engine = AsyncEngine(runner)
        num_calls = loop.num_calls
        await asyncio.gather(*(collect(engine, f"r{n}", 100) for n in range(50)))
        assert loop.num_calls - num_calls < runner.num_steps + 100
        assert runner.num_steps < 1000
        await engine.close()

    with asyncio.Runner(loop_factory=Loop) as asyncio_runner:
        asyncio_runner.run(main())


async def test_a_lone_stream_s_first_event_has_the_interpreter_before_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[tuple[int, int]] = []
    runner = CountingRunner()
    engine = AsyncEngine(runner)

    def sleep(_: float) -> None:
        pauses.append((len(engine._outboxes), runner.num_frames_made))

    monkeypatch.setattr("antiphon.engine.async_engine.time.sleep", sleep)
    await collect(engine, "first", 20)
    await collect(engine, "second", 20)
    (first, made), (second, made_then) = pauses
    assert first == second == 1
    assert made < 20 <= made_then < 40, "once each, and not at the end"
    await engine.close()
