"""A denoiser whose transformer reads packed latents, on an Euler schedule that depends on size."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path

from diffusers import FlowMatchEulerDiscreteScheduler
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.arrays import to_tensors
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.flow_denoiser import FlowDenoiser, FlowState
from antiphon.diffusion.image_prompt import ImagePrompt, image_work
from antiphon.diffusion.packed_config import PATCH, PackedConfig
from antiphon.diffusion.packed_latents import dynamic_shift, even_sigmas, pack, unpack
from antiphon.diffusion.protocol import DenoisingWork

_WIDTHS_HELD = 16
"""Activations of a position in a block, about: streams, queries, keys, values, and four times as
many inside the feed-forward layer."""


class PackedDenoiser(FlowDenoiser):
    """Base class of image denoisers; a family defines guidance and prediction.

    Its final latents are ``[1, C, height, width]``.
    """

    config: PackedConfig

    def load(self, loader: ComponentLoader) -> None:
        self.config = self.read_config(loader.index.path)
        self._scheduler = loader.other("scheduler", FlowMatchEulerDiscreteScheduler)

    @staticmethod
    @abstractmethod
    def read_config(path: Path) -> PackedConfig:
        """Return the sizes of a checkpoint."""

    @staticmethod
    @abstractmethod
    def guidance(data: ImagePrompt) -> float | None:
        """Return the scale of classifier-free guidance of an image; ``None`` without it."""

    @abstractmethod
    def velocity(self, states: Sequence[FlowState], text: str, context: str) -> Tensor:
        """Return the transformer's prediction with one of the texts.

        Args:
            text: name of the text's embeddings among the inputs.
            context: name of the transformer's cache context.
        """

    def predict(self, states: Sequence[FlowState]) -> Tensor:
        scale = self.guidance(states[0].prompt.data)  # equal in a batch, as part of its key
        return self.guided(partial(self.velocity, states), scale)

    def is_guided(self, prompt: Prompt, network: str) -> bool:
        return self.guidance(prompt.data) is not None

    def work(self, prompt: Prompt) -> DenoisingWork:
        data: ImagePrompt = prompt.data
        scale = self.guidance(data)
        num_positions = self.config.num_positions(data) + self.num_further_positions(prompt)
        return image_work(
            prompt,
            num_positions=num_positions,
            is_guided=scale is not None,
            num_bytes=num_positions * self.config.inner_dim * _WIDTHS_HELD * self.dtype.itemsize,
            batch_key=(scale, self.shapes(data)),
        )

    def num_further_positions(self, prompt: Prompt) -> int:
        """Return how many positions a pass has beside the image, about: those of the text."""
        return prompt.num_tokens

    def shapes(self, data: ImagePrompt) -> Hashable:
        """Return the further values that requests must share to be stepped together."""
        return None

    def start(self, prompt: Prompt, conditioning: Latents | None) -> FlowState:
        assert conditioning is not None
        data: ImagePrompt = prompt.data
        height, width = self.config.latent_size(data)
        shape = (1, self.config.in_channels // PATCH**2, height, width)
        latents = pack(self.noise(shape, prompt.seed))
        scheduler = deepcopy(self._scheduler)
        scheduler.set_timesteps(
            sigmas=even_sigmas(data.num_steps),
            device=self.device,
            mu=dynamic_shift(latents.shape[1], scheduler.config),
        )
        inputs = to_tensors(conditioning.data, self.device, self.dtype)
        return FlowState(prompt=prompt, latents=latents, scheduler=scheduler, inputs=inputs)

    def shown(self, latents: Tensor, prompt: Prompt) -> Tensor:
        return unpack(latents, *self.config.latent_size(prompt.data))
