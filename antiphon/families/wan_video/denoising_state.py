"""State of a request while it is denoised."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.arrays import to_tensor
from antiphon.diffusion.flow_denoiser import FlowState
from antiphon.families.wan_video.config import WanConfig
from antiphon.families.wan_video.prompt import MAX_PROMPT_TOKENS, WanPrompt
from antiphon.families.wan_video.stages import CONDITION, IMAGE, NEGATIVE, PROMPT


@dataclass(slots=True, kw_only=True)
class WanState(FlowState):
    """A request between two steps; its latents are float32.

    Attributes:
        dtype: element type in which the transformer computes.
        prompt_embeds: ``[1, MAX_PROMPT_TOKENS, text_dim]``.
        negative_embeds: embeddings of the negative prompt; ``None``: without guidance.
        image_embeds: CLIP's of the first frame, if the transformer reads them.
        condition: known part of the video: a mask and the first frame, concatenated with the
            latents ``[1, channels, ...]``, or values that replace the latents where ``unknown`` is
            0.
        unknown: 1 where latents are denoised, 0 where they are known, ``[1, 1, frames, ...]``;
            ``None``: all positions have the same timestep.
    """

    dtype: torch.dtype
    experts: tuple[int, ...]
    guidance_scales: tuple[float, ...]
    prompt_embeds: Tensor
    negative_embeds: Tensor | None
    image_embeds: Tensor | None
    condition: Tensor | None
    unknown: Tensor | None

    @property
    def expert(self) -> int:
        """Which one the next step uses."""
        return self.experts[self.step]

    @property
    def guidance_scale(self) -> float:
        return self.guidance_scales[self.expert]

    def model_input(self) -> Tensor:
        """Return the transformer's input: the latents, with the known part of the video."""
        if self.condition is not None and self.unknown is None:
            return torch.cat([self.latents, self.condition], dim=1).to(self.dtype)
        return self.completed(self.latents).to(self.dtype)

    def model_timestep(self) -> Tensor:
        """Return the timestep of the next step: ``[1]``, or ``[1, num_positions]``."""
        if self.unknown is None:
            return self.timestep.expand(1)
        # A position is two by two latents; diffusers has this number here too.
        return (self.unknown[0][0][:, ::2, ::2] * self.timestep).flatten().unsqueeze(0)

    def completed(self, latents: Tensor) -> Tensor:
        """Return latents with the known part in its place."""
        if self.condition is None or self.unknown is None:
            return latents
        return (1 - self.unknown) * self.condition + self.unknown * latents


class WanStates:
    def __init__(
        self,
        config: WanConfig,
        scheduler: Any,
        shift: str,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Take what they have in common.

        Args:
            scheduler: scheduler of diffusers, as the checkpoint configures it.
            shift: key of the schedule's shift in the scheduler's configuration.
            dtype: element type in which the transformer computes.
        """
        self._config = config
        self._scheduler = scheduler
        self._shift = shift
        self._device = device
        self._dtype = dtype

    def begin(self, prompt: Prompt, arrays: Mapping[str, NDArray[np.float32]]) -> WanState:
        """Return the state of a request before its first step.

        Args:
            prompt: prompt whose data is a `WanPrompt`.
            arrays: embeddings and latents of the encoders.
        """
        data: WanPrompt = prompt.data
        shape = self._config.latent_shape(data.width, data.height, data.num_frames)
        scheduler = self._schedule(data)
        # Drawn on the CPU: a seed gives the same video on any device.
        noise = torch.randn((1, *shape), generator=torch.Generator().manual_seed(prompt.seed))
        condition = self._placed(arrays.get(CONDITION), torch.float32)
        if condition is not None and not self._config.expand_timesteps:
            condition = self._with_mask(condition)
        return WanState(
            prompt=prompt,
            latents=noise.to(self._device),
            scheduler=scheduler,
            dtype=self._dtype,
            experts=self._experts(data, scheduler.timesteps),
            guidance_scales=(data.guidance_scale, data.guidance_scale_2),
            prompt_embeds=self._padded(arrays[PROMPT]),
            negative_embeds=self._padded(arrays[NEGATIVE]) if data.is_guided else None,
            image_embeds=self._placed(arrays.get(IMAGE), self._dtype),
            condition=condition,
            unknown=self._unknown(shape, condition) if self._config.expand_timesteps else None,
        )

    def _schedule(self, data: WanPrompt) -> Any:
        """Return a scheduler of the request's own, for its steps and shift."""
        shift = {self._shift: data.flow_shift}
        scheduler = type(self._scheduler).from_config(self._scheduler.config, **shift)
        scheduler.set_timesteps(data.num_inference_steps, device=self._device)
        return scheduler

    def _experts(self, data: WanPrompt, timesteps: Tensor) -> tuple[int, ...]:
        """Return which expert each step uses: the second for low noise."""
        if data.boundary_ratio is None:
            return (0,) * len(timesteps)
        boundary = data.boundary_ratio * self._config.num_train_timesteps
        return tuple(int(time < boundary) for time in timesteps.tolist())

    def _unknown(self, shape: tuple[int, ...], condition: Tensor | None) -> Tensor:
        unknown = torch.ones(1, 1, *shape[1:], dtype=torch.float32, device=self._device)
        if condition is not None:
            unknown[:, :, 0] = 0
        return unknown

    def _with_mask(self, condition: Tensor) -> Tensor:
        """Return a mask of the frames that are known, and the latents of those."""
        _, _, *sizes = condition.shape
        mask = condition.new_zeros(1, self._config.vae.scale_factor_temporal, *sizes)
        mask[:, :, 0] = 1
        return torch.cat([mask, condition], dim=1)

    def _padded(self, embeddings: NDArray[np.float32]) -> Tensor:
        """Return the embeddings of a text with zeros after them, as the transformer expects."""
        rows = to_tensor(embeddings, self._device, self._dtype)
        return pad(rows, (0, 0, 0, MAX_PROMPT_TOKENS - len(rows))).unsqueeze(0)

    def _placed(self, array: NDArray[np.float32] | None, dtype: torch.dtype) -> Tensor | None:
        return None if array is None else to_tensor(array, self._device, dtype)
