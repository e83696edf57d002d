"""One turn of the engine: schedule, launch, and update with the results of earlier launches."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.plan import StepPlan
from antiphon.engine.runner import PendingStep, Runner
from antiphon.engine.scheduler import EngineEvent, Scheduler, SchedulerLimits

_MAX_IN_FLIGHT = 1
_STALL_S = 0.01  # after an empty plan, until the next try without a command
_MIN_RESERVE_S, _MAX_RESERVE_S = 0.2e-3, 2e-3
_IF_DRY, _IF_NOT_DRY = 1.5, 0.99  # factors of the reserve: the device idles in 1 of 40 steps
_LAUNCH_WEIGHT = 0.1


@dataclass(slots=True)
class _LaunchedStep:
    plan: StepPlan
    pending: PendingStep
    shape: StepShape
    launched_s: float
    ended_s: float | None = None  # once it is known

    @property
    def is_over(self) -> bool:
        return self.ended_s is not None or self.pending.is_done


class EngineCore:
    """A scheduler and a runner; owned by one thread.

    The host is up to one step behind: while a step runs on a device, the next one is launched
    and the results of the one before are delivered. A request whose end becomes known late has
    then made one more frame, which is dropped.

    A step is launched shortly before the expected end of the one in flight, so that it includes
    requests that arrive meanwhile, and at its end at the latest: a caller that waits for `wait_s`
    waits for the end of `awaited` too. If the device idles between steps, they are launched earlier
    (additive reserve of 0.2 to 2 ms), unless the expectation was too long by more than that.
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
        self._launch_s = [0.0, 0.0]  # of plans without and with prompts
        self._reserve_s = _MIN_RESERVE_S
        self._stalled_until_s = 0.0

    def wait_s(self) -> float | None:
        """Return how long `step` should be delayed; ``None``: until a command arrives.

        The end of `awaited` ends the delay.
        """
        last = self._in_flight[-1] if self._in_flight else None
        if last and last.is_over:
            return 0.0
        if not self.scheduler.has_work:
            return self.scheduler.idle_s()
        due_s = self._due_s(last, self.scheduler.has_prompts) if last else self._stalled_until_s
        return max(due_s - self._clock(), 0.0)

    @property
    def awaited(self) -> PendingStep | None:
        """The step whose end ends the delay of `wait_s`; ``None``: none is in flight.

        A caller that waits for it reports its end by `note_end`.
        """
        return self._in_flight[-1].pending if self._in_flight else None

    @property
    def waits_for_readers(self) -> bool:
        """Whether nothing is in flight, and a request continues once its consumer has read."""
        return not self._in_flight and self.scheduler.waits_for_readers

    def note_end(self, pending: PendingStep, ended_s: float) -> None:
        """Record when a step ended, on the core's clock; ignored if its result was taken."""
        for step in self._in_flight:
            if step.pending is pending:
                step.ended_s = ended_s

    def wake(self) -> None:
        """Record that a command was executed, so that the next plan may not be empty."""
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
        launched_s = self._clock()
        pending = self.runner.launch(plan)
        now_s, stats = self._clock(), self.scheduler.stats
        stats.record_host(schedule=launched_s - begun_s, launch=now_s - launched_s)
        if self._in_flight:
            self._adapt_reserve(self._in_flight[-1], bool(plan.prefills), begun_s, now_s)
        self._in_flight.append(_LaunchedStep(plan, pending, StepShape.of(plan), launched_s))
        return True

    def _collect(self) -> list[tuple[str, EngineEvent]]:
        step = self._in_flight.popleft()
        output = step.pending.result()
        taken_s, plan, stats = self._clock(), step.plan, self.scheduler.stats
        ended_s = taken_s if step.ended_s is None else step.ended_s
        num_rows, num_chunks = len(plan.decode_slots), len(plan.codec_chunks)
        stats.record_rows(decode=num_rows, prefill=len(plan.prefills), codec=num_chunks)
        if num_rows or num_chunks or plan.prefills:
            duration_s = max(ended_s - max(step.launched_s, self._ended_s), 0.0)
            self.scheduler.costs.observe(step.shape, duration_s)
            stats.record_step(duration_s, decodes=bool(num_rows), prefills=bool(plan.prefills))
        self._ended_s = ended_s
        events = self.scheduler.update(plan, output)
        stats.record_host(update=self._clock() - taken_s)
        return events

    def _due_s(self, last: _LaunchedStep, has_prompts: bool) -> float:
        """Return when to plan the step after ``last``, unless that ends before."""
        expected_s = self.scheduler.costs.step_s(last.shape)
        ends_s = max(last.launched_s, self._ended_s) + expected_s
        return ends_s - self._launch_s[has_prompts] - self._reserve_s

    def _adapt_reserve(
        self, before: _LaunchedStep, has_prompts: bool, begun_s: float, now_s: float
    ) -> None:
        """Launch earlier if the device idled after ``before``, a little later if it did not."""
        was_too_long = self._due_s(before, has_prompts) - begun_s > _MAX_RESERVE_S
        excess_s = now_s - begun_s - self._launch_s[has_prompts]
        self._launch_s[has_prompts] += excess_s * _LAUNCH_WEIGHT
        is_dry = before.is_over
        ended_s = begun_s if before.ended_s is None else before.ended_s  # at the earliest
        self.scheduler.stats.record_host(gap=now_s - ended_s if is_dry else 0.0)
        if not (is_dry and was_too_long):
            reserve_s = self._reserve_s * (_IF_DRY if is_dry else _IF_NOT_DRY)
            self._reserve_s = min(max(reserve_s, _MIN_RESERVE_S), _MAX_RESERVE_S)
