"""Learns what steps of denoising take, to predict how long requests wait."""

_WEIGHT = 0.1
_FAULT = 1e-9


class StepCostModel:
    """Seconds for each unit of `DenoisingWork.cost`, as batches really took them.

    Attributes:
        seconds_per_cost: mean over the steps so far; 0: unknown.
    """

    def __init__(self) -> None:
        self.seconds_per_cost = 0.0

    def observe(self, cost: float, duration_s: float) -> None:
        """Learn from a step of a batch: its cost is the sum of its requests'."""
        if cost <= _FAULT:
            return
        new = duration_s / cost
        before = self.seconds_per_cost
        self.seconds_per_cost = before + (new - before) * _WEIGHT if before else new

    def seconds(self, cost: float, num_steps: int) -> float:
        """Predict the time of a request's steps; 0 if nothing is known."""
        return self.seconds_per_cost * cost * num_steps
