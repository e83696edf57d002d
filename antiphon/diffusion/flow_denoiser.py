"""A denoiser by flow matching, on a network and a scheduler of diffusers."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import torch
from diffusers.utils.torch_utils import randn_tensor
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.arrays import to_array
from antiphon.diffusion.components import ComponentUser
from antiphon.diffusion.protocol import DenoisingWork

StateT = TypeVar("StateT", bound="FlowState")


@dataclass(slots=True, kw_only=True)
class FlowState:
    """A request on its way from noise to a picture.

    Attributes:
        latents: current latents, shape ``[1, ...]``.
        scheduler: the request's own scheduler of diffusers, with its timesteps set.
        inputs: further inputs of the network, by name; shapes ``[1, ...]``.
        step: index of the next step, from 0.
    """

    prompt: Prompt
    latents: Tensor
    scheduler: Any
    inputs: dict[str, Tensor] = field(default_factory=dict)
    step: int = 0
    _before: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def timestep(self) -> Tensor:
        """Of the step that comes next, a number on the device."""
        timestep: Tensor = self.scheduler.timesteps[self.step]
        return timestep

    @property
    def is_complete(self) -> bool:
        return self.step >= len(self.scheduler.timesteps)

    def advance(self, velocity: Tensor) -> None:
        """Advance the latents by one step along the network's prediction.

        Args:
            velocity: the direction from the picture to the noise, of the latents' shape.
        """
        sigma = self.scheduler.sigmas[self.step]
        self._before = (self.latents, velocity, sigma)
        stepped = self.scheduler.step(velocity, self.timestep, self.latents, return_dict=False)
        self.latents = stepped[0]
        self.step += 1

    def estimate(self) -> Tensor:
        """Return the final latents as the last step sees them; its end, if it goes straight on."""
        if self._before is None:
            return self.latents
        latents, velocity, sigma = self._before
        return latents - sigma.to(latents) * velocity


class FlowDenoiser(ComponentUser):
    """Base class of denoisers that step `FlowState`s; a family defines start and prediction.

    On a CPU, and where results must not depend on the batch, requests are computed one by one.
    """

    def __init__(self, context: LoadContext) -> None:
        """Load the components; raises ModelLoadError."""
        super().__init__(context)
        self._accelerator = self._loader.accelerator
        self._is_one_by_one = self.device.type == "cpu" or context.is_deterministic

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._loader.device

    @property
    def dtype(self) -> torch.dtype:
        """Element type of the computation."""
        return self._loader.dtype

    @property
    def max_batch(self) -> int:
        """Most requests that are worth stepping together."""
        return self._loader.context.diffusion.max_batch

    @abstractmethod
    def work(self, prompt: Prompt) -> DenoisingWork:
        """Return the estimated work of a prompt; computes next to nothing."""

    @abstractmethod
    def start(self, prompt: Prompt, conditioning: Latents | None) -> FlowState:
        """Return the state of a request before its first step; called in inference mode."""

    @abstractmethod
    def predict(self, states: Sequence[FlowState]) -> Tensor:
        """Return the velocities of requests, guidance included, shape ``[num_states, ...]``.

        Called in inference mode. The states may be at different steps.
        """

    def is_guided(self, prompt: Prompt, network: str) -> bool:
        """Whether a network runs twice in each step of a request, without its text last."""
        return False

    def both(
        self, near: Callable[[], Tensor], apart: Callable[[], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return both passes of guidance: with the text and without it, in this order.

        They may be computed by different processes, so neither may need the other.
        """
        return self._accelerator.both(near, apart)

    def guided(self, velocity: Callable[[str, str], Tensor], scale: float | None) -> Tensor:
        """Return the velocity with the text, led away from that without it.

        Args:
            velocity: function from the name of the text's embeddings and a cache context to the
                network's prediction.
            scale: scale of classifier-free guidance; ``None``: no guidance.
        """
        near = partial(velocity, "prompt_embeds", "cond")
        if scale is None:
            return near()
        apart = partial(velocity, "negative_prompt_embeds", "uncond")
        return self.combined(*self.both(near, apart), scale)

    def combined(self, velocity: Tensor, negative: Tensor, scale: float) -> Tensor:
        """Return the guided velocity from those with the text and without it."""
        return negative + scale * (velocity - negative)

    def shown(self, latents: Tensor, prompt: Prompt) -> Tensor:
        """Return latents as the decoder takes them: as they are, unless a family packs them."""
        return latents

    def begin(self, prompt: Prompt, conditioning: Latents | None) -> FlowState:
        """Return the state of a request before its first step."""
        steps = self.work(prompt).num_steps
        self._accelerator.begin(steps, partial(self.is_guided, prompt))
        with self._accelerator.resident(), torch.inference_mode():
            state = self.start(prompt, conditioning)
            state.scheduler.set_begin_index(0)  # or it would look the first timestep up
            return state

    def step(self, states: Sequence[FlowState]) -> None:
        """Take the next step of each request."""
        batches = [[state] for state in states] if self._is_one_by_one else [states]
        with self._accelerator.resident(), torch.inference_mode():
            for batch in batches:
                velocities = self.predict(batch)
                for index, state in enumerate(batch):
                    state.advance(velocities[index : index + 1])
                    if state.is_complete:
                        self._accelerator.end()

    def preview(self, state: FlowState) -> Latents:
        """Return an estimate of the final latents."""
        with torch.inference_mode():
            return Latents(to_array(self.shown(state.estimate(), state.prompt)))

    def finish(self, state: FlowState) -> Latents:
        with torch.inference_mode():
            return Latents(to_array(self.shown(state.latents, state.prompt)))

    def timesteps(self, states: Sequence[FlowState]) -> Tensor:
        """Return each state's timestep, of the type that the network computes in."""
        return torch.stack([state.timestep for state in states]).to(states[0].latents.dtype)

    def noise(self, shape: tuple[int, ...], seed: int) -> Tensor:
        """Return CPU generator noise for a seed, the same on any device.

        Args:
            seed: seed for ``torch.Generator().manual_seed``.
        """
        generator = torch.Generator().manual_seed(seed)
        drawn: Tensor = randn_tensor(
            shape, generator=generator, device=self.device, dtype=self.dtype
        )
        return drawn


def in_groups(
    states: Sequence[StateT],
    key: Callable[[StateT], Hashable],
    compute: Callable[[Sequence[StateT]], Tensor],
) -> Tensor:
    """Return the results of states in order, where those with equal keys are computed together."""
    groups: dict[Hashable, list[int]] = {}
    for index, state in enumerate(states):
        groups.setdefault(key(state), []).append(index)
    parts = [compute([states[index] for index in group]) for group in groups.values()]
    if len(parts) == 1:
        return parts[0]
    rows = dict(zip(chain(*groups.values()), torch.cat(parts), strict=True))
    return torch.stack([rows[index] for index in range(len(states))])
