"""What the engine asks of whoever computes a step."""

from typing import Protocol

from antiphon.engine.plan import StepOutput, StepPlan


class Runner(Protocol):
    """Holds the model and the state of every slot; called from the engine's thread only.

    A frame depends on its own request alone (prompt, seed, frame number), never on which slot it
    has or who else is in the batch.
    """

    @property
    def num_slots(self) -> int:
        """Requests that can be under way at once."""
        ...

    def run(self, plan: StepPlan) -> StepOutput:
        """Carry out one step."""
        ...

    def close(self) -> None:
        """Free what loading took."""
        ...
