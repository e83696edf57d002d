"""One turn of the engine: schedule, launch, and update with the results of earlier launches."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.plan import StepPlan
from antiphon.engine.runner import PendingStep, Runner
from antiphon.engine.scheduler import EngineEvent, Scheduler, SchedulerLimits
from antiphon.engine.scheduling_policy import PlaybackPolicy

_MAX_IN_FLIGHT = 1
_STALL_S = 0.01  # after an empty plan, until the next try without a command
_MIN_RESERVE_S, _MAX_RESERVE_S = 0.2e-3, 50e-3
_LAUNCH_WEIGHT = 0.1


@dataclass(slots=True)
class _LaunchedStep:
    """A step that was launched."""

    plan: StepPlan
    pending: PendingStep
    shape: StepShape
    launched_s: float


class EngineCore:
    """A scheduler and a runner; owned by one thread.

    The host is up to one step behind: while a step runs on a device, the next one is launched
    after it and the results of the one before are handed on. A request whose end becomes known
    late has then made a frame too many, which is dropped.

    A step is launched shortly before the one in flight should be over, so that a request that
    arrives meanwhile is in it. If the device ran dry all the same, steps are launched earlier.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        limits: SchedulerLimits | None = None,
        policy: PlaybackPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runner = runner
        self.scheduler = Scheduler(
            runner.num_slots,
            cache=runner.cache,
            codec=runner.codec,
            limits=limits,
            policy=policy,
            costs=CostModel(runner.row_buckets),
            clock=clock,
        )
        self._clock = clock
        self._in_flight: deque[_LaunchedStep] = deque()
        self._ended_s = 0.0
        self._launch_s = 0.0
        self._reserve_s = _MIN_RESERVE_S
        self._stalled_until_s = 0.0

    @property
    def has_work(self) -> bool:
        """Whether `step` has anything to do."""
        return bool(self._in_flight) or self.scheduler.has_work

    def wait_s(self) -> float | None:
        """Return how long `step` should be delayed; ``None``: until a command arrives."""
        if not self._in_flight:
            if not self.scheduler.has_work:
                return self.scheduler.idle_s()
            return max(self._stalled_until_s - self._clock(), 0.0)
        last = self._in_flight[-1]
        if last.pending.is_done or not self.scheduler.has_work:
            return 0.0
        expected_s = self.scheduler.costs.step_s(last.shape)
        ends_s = max(last.launched_s, self._ended_s) + expected_s
        return max(ends_s - self._launch_s - self._reserve_s - self._clock(), 0.0)

    def wake(self) -> None:
        """Note that a command has been carried out, so that the next plan need not be empty."""
        self._stalled_until_s = 0.0

    def step(self) -> list[tuple[str, EngineEvent]]:
        """Launch a step if there is work; return the events of the steps that are done."""
        is_launched = self.scheduler.has_work and self._launch()
        num_left = _MAX_IN_FLIGHT if is_launched else 0
        events: list[tuple[str, EngineEvent]] = []
        while len(self._in_flight) > num_left or (
            self._in_flight and self._in_flight[0].pending.is_done
        ):
            events += self._collect()
        return events

    def _launch(self) -> bool:
        begun_s = self._clock()
        plan = self.scheduler.schedule()
        if plan.is_empty:
            if not self._in_flight:
                self._stalled_until_s = begun_s + _STALL_S
            return False
        before = self._in_flight[-1].pending if self._in_flight else None
        launched_s = self._clock()
        pending = self.runner.launch(plan)
        if before is not None:
            self._adapt_reserve(self._clock() - begun_s, is_dry=before.is_done)
        self._in_flight.append(_LaunchedStep(plan, pending, StepShape.of(plan), launched_s))
        return True

    def _collect(self) -> list[tuple[str, EngineEvent]]:
        step = self._in_flight.popleft()
        output = step.pending.result()
        now_s, plan, stats = self._clock(), step.plan, self.scheduler.stats
        num_rows, num_chunks = len(plan.decode_slots), len(plan.codec_chunks)
        stats.record_rows(decode=num_rows, prefill=len(plan.prefills), codec=num_chunks)
        if num_rows or num_chunks or plan.prefills:
            duration_s = now_s - max(step.launched_s, self._ended_s)
            self.scheduler.costs.observe(step.shape, duration_s)
            stats.record_step(duration_s, decodes=bool(num_rows), prefills=bool(plan.prefills))
        self._ended_s = now_s
        return self.scheduler.update(plan, output)

    def _adapt_reserve(self, launch_s: float, *, is_dry: bool) -> None:
        """Launch earlier if the device ran dry, a little later if it did not."""
        self._launch_s += (launch_s - self._launch_s) * _LAUNCH_WEIGHT
        reserve_s = self._reserve_s * (1.5 if is_dry else 0.98)
        self._reserve_s = min(max(reserve_s, _MIN_RESERVE_S), _MAX_RESERVE_S)
