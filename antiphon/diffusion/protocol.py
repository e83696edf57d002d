"""Interface of a denoising stage; the driver owns the loop over steps."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents


@dataclass(frozen=True, slots=True, kw_only=True)
class DenoisingWork:
    """Estimated work of a request, known from its prompt.

    Attributes:
        num_steps: number of denoising steps, at least 1.
        cost: cost of a step, in units that take a denoiser about equal times, such as positions of
            its transformer, twice with guidance.
        num_bytes: memory that the request holds while it is denoised; 0: unknown.
        batch_key: requests with equal keys may be stepped together: equal shapes and settings.
        preview_steps: numbers of steps, from 1, after which an estimate is shown.
    """

    num_steps: int
    cost: float
    num_bytes: int = 0
    batch_key: Hashable = None
    preview_steps: Collection[int] = ()


def preview_steps(num_previews: int, num_steps: int) -> frozenset[int]:
    """Return the steps after which previews are shown: evenly between noise and the result."""
    steps = (index * num_steps // (num_previews + 1) for index in range(1, num_previews + 1))
    return frozenset(steps) - {0, num_steps}


class Denoiser(Protocol):
    """A model whose denoising is stepped by a driver, in one thread.

    Its states hold all that a request needs, with a scheduler of its own; dropping a state frees
    everything. The result of a request is a function of its prompt and conditioning. Where numbers
    must be exact (a CPU in float32, or the deterministic mode), `step` computes the requests one
    after another, so that the result does not depend on the batch either.

    An exception in `begin`, `preview` or `finish` ends its request; an exception in `step` ends the
    stepped ones. An `EngineFailedError` means that the denoiser is broken for good, such as its
    device.
    """

    @property
    def max_batch(self) -> int:
        """Most requests that are worth stepping together."""

    def work(self, prompt: Prompt) -> DenoisingWork:
        """Return the estimated work of a prompt; computes next to nothing."""

    def begin(self, prompt: Prompt, conditioning: Latents | None) -> Any:
        """Return the state of a request before its first step: noise by its seed, a schedule.

        Args:
            conditioning: output of the stage before; ``None``: there is none.
        """

    def step(self, states: Sequence[Any]) -> None:
        """Take the next step of each request; all have equal `DenoisingWork.batch_key`.

        They may be at different steps of their schedules.
        """

    def preview(self, state: Any) -> Latents:
        """Return an estimate of the final latents; the driver numbers it."""

    def finish(self, state: Any) -> Latents:
        """Return the final latents, after the last step."""

    def close(self) -> None:
        """Free the memory of the loaded components."""
