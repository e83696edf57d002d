"""One turn of the engine: schedule, run, update."""

from antiphon.engine.runner import Runner
from antiphon.engine.scheduler import EngineEvent, Scheduler


class EngineCore:
    """A scheduler and a runner; owned by one thread."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.scheduler = Scheduler(runner.num_slots)

    def step(self) -> list[tuple[str, EngineEvent]]:
        """Carry out one step and return its events in order."""
        plan = self.scheduler.schedule()
        output = self.runner.run(plan)
        return self.scheduler.update(plan, output)
