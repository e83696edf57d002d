"""The end of a step is told in time, of the one that is watched alone; a fault ends one too."""

import asyncio
import queue
import threading
import time
from contextlib import aclosing

import pytest

from antiphon.contracts.types import FrameReady
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import StepOutput, StepPlan
from antiphon.engine.runner import PendingStep
from antiphon.engine.thread import StepWaiter
from antiphon.telemetry.stage_status import StageStatus
from tests.engine.counting_runner import CountingRunner, prompt
from tests.loops import until

_TIMEOUT_S = 30.0


class HeldStep:
    """A step that is over when the test says so."""

    def __init__(self, output: StepOutput | None = None, *, is_broken: bool = False) -> None:
        self.over = threading.Event()
        self.num_waits = 0
        self._output = output
        self._is_broken = is_broken

    @property
    def is_done(self) -> bool:
        return self.over.is_set()

    def wait(self) -> None:
        self.num_waits += 1
        assert self.over.wait(_TIMEOUT_S)
        if self._is_broken:
            raise RuntimeError("the device is lost")

    def result(self) -> StepOutput:
        assert self._output is not None, "the result is not the waiter's to take"
        assert self.over.wait(_TIMEOUT_S)
        return self._output


def started() -> tuple[StepWaiter, "queue.SimpleQueue[tuple[PendingStep, float]]"]:
    told: queue.SimpleQueue[tuple[PendingStep, float]] = queue.SimpleQueue()
    return StepWaiter(lambda step, ended_s: told.put((step, ended_s)), "waiter"), told


def test_each_step_is_told_once_when_it_is_over() -> None:
    waiter, told = started()
    for step in (HeldStep(), HeldStep(is_broken=True), HeldStep()):
        waiter.watch(step)
        waiter.watch(step)
        assert told.empty()
        began_s = time.monotonic()
        step.over.set()
        ended, ended_s = told.get(timeout=_TIMEOUT_S)
        assert ended is step
        assert began_s <= ended_s <= time.monotonic()
        assert step.num_waits == 1
    waiter.close()
    assert told.empty()


def test_a_step_that_is_watched_no_more_is_not_told() -> None:
    waiter, told = started()
    first, skipped, last = HeldStep(), HeldStep(), HeldStep()
    for step in (first, skipped, last):
        waiter.watch(step)
        last.over.set()
    first.over.set()
    assert told.get(timeout=_TIMEOUT_S)[0] is last
    assert skipped.num_waits == 0
    waiter.watch(HeldStep())
    waiter.watch(None)
    waiter.close()
    assert told.empty()


def test_closing_does_not_wait_for_a_device_that_is_lost() -> None:
    waiter, told = started()
    step = HeldStep()
    waiter.watch(step)
    waiter.close()
    step.over.set()
    waiter.close()
    assert told.empty()


class HeldRunner(CountingRunner):
    """Steps that last until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[HeldStep] = []
        self.holds = True

    def launch(self, plan: StepPlan) -> HeldStep:
        self.steps.append(step := HeldStep(super().launch(plan).result()))
        if not self.holds:
            step.over.set()
        return step


async def test_the_next_step_is_launched_when_one_ends_however_long_it_should_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CostModel, "step_s", lambda costs, shape: 1e6)

    runner = HeldRunner()
    engine = AsyncEngine(runner)
    async with aclosing(engine.generate("endless", prompt(None))) as events:
        first = asyncio.ensure_future(anext(events))
        for number in range(1, 6):
            await until(lambda number=number: len(runner.steps) == number)
            runner.steps[-1].over.set()
        assert await first == FrameReady(0)
        runner.holds = False
        for step in runner.steps:
            step.over.set()
    await until(lambda: not runner.slots)
    await engine.close()
    assert engine.failure is None


async def test_a_step_is_told_to_be_under_way_while_there_is_nothing_else_to_do() -> None:
    """Or nobody would notice that the device hangs in it."""
    is_under_way: list[bool] = []

    def note(status: StageStatus) -> None:
        if is_under_way[-1:] != [now := status.step_began_s is not None]:
            is_under_way.append(now)

    runner = HeldRunner()
    engine = AsyncEngine(runner, publish=note)
    async with aclosing(engine.generate("open", prompt(9, num_frames_allowed=1))) as events:
        first = asyncio.ensure_future(anext(events))
        await until(lambda: is_under_way == [False, True, False, True])
        runner.steps[-1].over.set()
        assert await first == FrameReady(0)
        await until(lambda: not is_under_way[-1])
        runner.holds = False
    await engine.close()
    assert engine.failure is None
