"""One turn of the engine: schedule, launch, and take in what earlier launches have given."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from antiphon.engine.cost_model import StepShape
from antiphon.engine.plan import StepPlan
from antiphon.engine.runner import PendingStep, Runner
from antiphon.engine.scheduler import EngineEvent, Scheduler, SchedulerLimits
from antiphon.engine.scheduling_policy import PlaybackPolicy

_MAX_UNDER_WAY = 1
_STALL_S = 0.01  # until an empty plan is tried again, if nothing has happened by then
_MIN_RESERVE_S, _MAX_RESERVE_S = 0.2e-3, 50e-3
_LAUNCH_WEIGHT = 0.1


@dataclass(slots=True)
class _UnderWay:
    """A step that was launched."""

    plan: StepPlan
    pending: PendingStep
    shape: StepShape
    launched_s: float


class EngineCore:
    """A scheduler and a runner; owned by one thread.

    The host is up to one step behind: while a step runs on a device, the next one is launched
    after it and the one before is told to the listeners. A request whose end becomes known late
    has then made a frame too many, which is dropped.

    A step is launched late, shortly before the one under way should be over, so that a request that
    arrives meanwhile has a part in it. If the device turns out to have run dry all the same, more
    time is kept in reserve.
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
            clock=clock,
        )
        self._clock = clock
        self._under_way: deque[_UnderWay] = deque()
        self._ended_s = 0.0
        self._num_positions_unmeasured = 0
        self._launch_s = 0.0
        self._reserve_s = _MIN_RESERVE_S
        self._stalled_until_s = 0.0

    @property
    def has_work(self) -> bool:
        """Whether `step` has anything to do."""
        return bool(self._under_way) or self.scheduler.has_work

    def wait_s(self) -> float | None:
        """Return for how long `step` had better be put off; ``None``: until something happens."""
        if not self._under_way:
            if not self.scheduler.has_work:
                return None
            return max(self._stalled_until_s - self._clock(), 0.0)
        last = self._under_way[-1]
        if last.pending.is_done or not self.scheduler.has_work:
            return 0.0
        expected_s = self.scheduler.times.step_s(last.shape)
        ends_s = max(last.launched_s, self._ended_s) + expected_s
        return max(ends_s - self._launch_s - self._reserve_s - self._clock(), 0.0)

    def wake(self) -> None:
        """Note that something has happened that a plan may depend on."""
        self._stalled_until_s = 0.0

    def step(self) -> list[tuple[str, EngineEvent]]:
        """Launch a step if there is one to launch; return the events of those that are over."""
        is_launched = self.scheduler.has_work and self._launch()
        num_left = _MAX_UNDER_WAY if is_launched else 0
        events: list[tuple[str, EngineEvent]] = []
        while len(self._under_way) > num_left or (
            self._under_way and self._under_way[0].pending.is_done
        ):
            events += self._collect()
        return events

    def _launch(self) -> bool:
        begun_s = self._clock()
        plan = self.scheduler.schedule()
        if plan.is_empty:
            if not self._under_way:
                self._stalled_until_s = begun_s + _STALL_S
            return False
        before = self._under_way[-1].pending if self._under_way else None
        launched_s = self._clock()
        pending = self.runner.launch(plan)
        if before is not None:
            self._adapt_reserve(self._clock() - begun_s, is_dry=before.is_done)
        self._under_way.append(_UnderWay(plan, pending, self._shape_of(plan), launched_s))
        return True

    def _collect(self) -> list[tuple[str, EngineEvent]]:
        step = self._under_way.popleft()
        output = step.pending.result()
        now_s = self._clock()
        if step.plan.decode_slots or step.plan.codec_chunks:
            duration_s = now_s - max(step.launched_s, self._ended_s)
            self.scheduler.times.observe(step.shape, duration_s)
        self._ended_s = now_s
        return self.scheduler.update(step.plan, output)

    def _shape_of(self, plan: StepPlan) -> StepShape:
        """Return a plan's shape, and that of plans before without an outcome to wait for."""
        shape = StepShape.of(plan)
        num_positions = shape.num_positions + self._num_positions_unmeasured
        is_measured = bool(plan.decode_slots or plan.codec_chunks)
        self._num_positions_unmeasured = 0 if is_measured else num_positions
        return replace(shape, num_positions=num_positions)

    def _adapt_reserve(self, launch_s: float, *, is_dry: bool) -> None:
        """Launch earlier if the device had nothing to do, a little later if it had."""
        self._launch_s += (launch_s - self._launch_s) * _LAUNCH_WEIGHT
        reserve_s = self._reserve_s * (1.5 if is_dry else 0.98)
        self._reserve_s = min(max(reserve_s, _MIN_RESERVE_S), _MAX_RESERVE_S)
