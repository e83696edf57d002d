"""What the engine asks of whoever computes a step."""

from dataclasses import dataclass
from typing import Protocol

from antiphon.engine.plan import CacheShape, CodecShape, StepOutput, StepPlan


class PendingStep(Protocol):
    """A step that has been launched."""

    @property
    def is_done(self) -> bool:
        """Whether `result` returns at once."""
        ...

    def result(self) -> StepOutput:
        """Wait for the step; called once, in the order of the launches."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """A `PendingStep` of a runner that computes where it is called."""

    output: StepOutput
    is_done: bool = True

    def result(self) -> StepOutput:
        return self.output


class Runner(Protocol):
    """Holds the model and the state of every slot; called from the engine's thread only.

    A frame depends on its own request alone (prompt, seed, frame number), never on which slot it
    has or who else is in the batch. A step may be launched before the one before has been asked
    for its result; it comes after it all the same.
    """

    @property
    def num_slots(self) -> int:
        """Requests that can be under way at once."""
        ...

    @property
    def cache(self) -> CacheShape | None:
        """Its paged keys and values; ``None``: it needs no blocks and no prefills."""
        ...

    @property
    def codec(self) -> CodecShape | None:
        """What it decodes to; ``None``: it makes frames alone and is given no codec chunks."""
        ...

    def launch(self, plan: StepPlan) -> PendingStep:
        """Begin one step."""
        ...

    def close(self) -> None:
        """Free what loading took."""
        ...
