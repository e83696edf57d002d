"""The denoiser of GLM-Image: a transformer over latents, glyphs and the codes of the prior."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, GlmImageTransformer2DModel
from diffusers.models.transformers.transformer_glm_image import (
    GlmImageKVCache,
    GlmImageTransformerBlock,
)
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.acceleration import register_block
from antiphon.diffusion.arrays import to_tensors
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.flow_denoiser import FlowDenoiser, FlowState, in_groups
from antiphon.diffusion.image_prompt import ImagePrompt, image_work
from antiphon.diffusion.protocol import DenoisingWork
from antiphon.families.glm_image.config import LATENT_PIXELS
from antiphon.families.glm_image.prompt import GlmImagePrompt

_FLOAT_BYTES = 4


@dataclass(slots=True, kw_only=True)
class GlmImageState(FlowState):
    """A request, with the keys and values of the images that it brings; ``None``: it has none."""

    sources: GlmImageKVCache | None = None


class GlmImageDenoiser(FlowDenoiser):
    def load(self, loader: ComponentLoader) -> None:
        register_block(GlmImageTransformerBlock, is_text_first=False)
        self._transformer = loader.module("transformer", GlmImageTransformer2DModel)
        self._scheduler = loader.other("scheduler", FlowMatchEulerDiscreteScheduler)
        self._patch: int = self._transformer.config.patch_size

    def work(self, prompt: Prompt) -> DenoisingWork:
        data: GlmImagePrompt = prompt.data
        shape = self._shape(data.image)
        return image_work(
            replace(prompt, data=data.image),
            num_positions=self._num_positions(data.image),
            is_guided=data.guidance is not None,
            num_bytes=4 * int(np.prod(shape)) * _FLOAT_BYTES,  # latents, velocities, estimate
            batch_key=data.guidance,
        )

    def is_guided(self, prompt: Prompt, network: str) -> bool:
        data: GlmImagePrompt = prompt.data
        return data.guidance is not None

    def start(self, prompt: Prompt, conditioning: Latents | None) -> GlmImageState:
        data: GlmImagePrompt = prompt.data
        assert conditioning is not None, "the stage before gives the codes"
        inputs = to_tensors(conditioning.data, self.device, self.dtype)
        image = data.image
        size = torch.tensor([[image.height, image.width]], dtype=self.dtype, device=self.device)
        inputs["target_size"] = size
        inputs["crop_coords"] = torch.zeros_like(size)
        sources = self._read_sources(inputs, len(image.images))
        if sources is not None:  # caches of steps must not take that for one
            self._accelerator.begin(image.num_steps, partial(self.is_guided, prompt))
        return GlmImageState(
            prompt=prompt,
            sources=sources,
            latents=self.noise(self._shape(image), prompt.seed),
            scheduler=self._schedule(image),
            inputs=inputs,
        )

    def _read_sources(self, inputs: dict[str, Tensor], number: int) -> GlmImageKVCache | None:
        """Take the images to be edited out of what the stage before has made, and read them."""
        if not number:
            return None
        cache = GlmImageKVCache(num_layers=self._transformer.config.num_layers)
        cache.set_mode("write")
        for index in range(number):
            latents = inputs.pop(f"source_latents_{index}")
            codes = inputs.pop(f"source_token_ids_{index}")
            height, width = (size * LATENT_PIXELS for size in latents.shape[-2:])
            with self._transformer.cache_context(f"source {index}"):
                self._transformer(
                    hidden_states=latents,
                    encoder_hidden_states=inputs["prompt_embeds"][:, :0],
                    prior_token_id=codes,
                    prior_token_drop=torch.zeros_like(codes, dtype=torch.bool),
                    timestep=torch.zeros(1, device=self.device),
                    target_size=torch.tensor([[height, width]], device=self.device),
                    crop_coords=torch.zeros(1, 2, device=self.device),
                    kv_caches=cache,
                )
        cache.next_sample()
        return cache

    def predict(self, states: Sequence[FlowState]) -> Tensor:
        data: GlmImagePrompt = states[0].prompt.data  # guidance is equal in a batch, as in its key
        return self.guided(partial(self._velocities, states), data.guidance)

    def _velocities(self, states: Sequence[FlowState], text: str, context: str) -> Tensor:
        """Return what the transformer predicts with one of the texts, shape of the latents.

        Those whose texts are equally long are computed together, but for those with images.
        """

        def alike(state: GlmImageState) -> tuple[int, int]:
            return state.inputs[text].shape[1], 0 if state.sources is None else id(state)

        mine = cast(Sequence[GlmImageState], states)
        return in_groups(mine, alike, partial(self._velocity, text=text, context=context))

    def _velocity(self, states: Sequence[GlmImageState], text: str, context: str) -> Tensor:
        def joined(name: str) -> Tensor:
            return torch.cat([state.inputs[name] for state in states])

        sources = states[0].sources
        if sources is not None:
            sources.set_mode("read" if context == "cond" else "skip")
        codes = joined("prior_token_ids")
        latents = torch.cat([state.latents for state in states])
        with self._transformer.cache_context(context):
            velocity: Tensor = self._transformer(
                hidden_states=latents.to(self.dtype),
                encoder_hidden_states=joined(text),
                prior_token_id=codes,
                # Without its text an image has no codes either.
                prior_token_drop=torch.full_like(codes, context == "uncond", dtype=torch.bool),
                timestep=torch.stack([state.timestep for state in states]) - 1,
                target_size=joined("target_size"),
                crop_coords=joined("crop_coords"),
                kv_caches=sources,
                return_dict=False,
            )[0]
        return velocity.float()

    def _shape(self, image: ImagePrompt) -> tuple[int, int, int, int]:
        channels: int = self._transformer.config.in_channels
        return (1, channels, image.height // LATENT_PIXELS, image.width // LATENT_PIXELS)

    def _num_positions(self, image: ImagePrompt) -> int:
        _, _, height, width = self._shape(image)
        return height * width // self._patch**2

    def _schedule(self, image: ImagePrompt) -> FlowMatchEulerDiscreteScheduler:
        """Return a scheduler of its own, shifted by the size, as the official pipeline sets it."""
        scheduler = FlowMatchEulerDiscreteScheduler.from_config(self._scheduler.config)
        config = scheduler.config
        num_trained: int = config.num_train_timesteps
        timesteps = np.linspace(num_trained, 1.0, image.num_steps + 1)[:-1]
        timesteps = timesteps.astype(np.int64).astype(np.float32)
        ratio = self._num_positions(image) / config.get("base_image_seq_len", 256)
        scheduler.set_timesteps(
            timesteps=timesteps,
            sigmas=timesteps / num_trained,
            device=self.device,
            mu=ratio**0.5 * config.get("max_shift", 0.75) + config.get("base_shift", 0.25),
        )
        return scheduler
