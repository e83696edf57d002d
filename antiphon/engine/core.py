"""One turn of the engine: schedule, launch, and take in what earlier launches have given."""

from collections import deque

from antiphon.engine.plan import StepPlan
from antiphon.engine.runner import PendingStep, Runner
from antiphon.engine.scheduler import EngineEvent, Scheduler

_MAX_UNDER_WAY = 1


class EngineCore:
    """A scheduler and a runner; owned by one thread.

    The host is up to one step behind: while a step runs on a device, the next one is launched
    after it and the one before is told to the listeners. A request whose end becomes known late
    has then made a frame too many, which is dropped.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.scheduler = Scheduler(runner.num_slots)
        self._under_way: deque[tuple[StepPlan, PendingStep]] = deque()

    @property
    def has_work(self) -> bool:
        """Whether `step` has anything to do."""
        return bool(self._under_way) or self.scheduler.has_work

    def step(self) -> list[tuple[str, EngineEvent]]:
        """Launch a step if there is one to launch; return the events of those that are over."""
        num_left = 0
        if self.scheduler.has_work:
            plan = self.scheduler.schedule()
            self._under_way.append((plan, self.runner.launch(plan)))
            num_left = _MAX_UNDER_WAY
        events: list[tuple[str, EngineEvent]] = []
        while len(self._under_way) > num_left or (
            self._under_way and self._under_way[0][1].is_done
        ):
            plan, pending = self._under_way.popleft()
            events += self.scheduler.update(plan, pending.result())
        return events
