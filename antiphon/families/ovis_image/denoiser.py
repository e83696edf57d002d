"""The denoiser of Ovis-Image: a transformer over packed latents and text."""

from collections.abc import Sequence

import torch
from diffusers import OvisImageTransformer2DModel
from diffusers.models.transformers.transformer_ovis_image import (
    OvisImageSingleTransformerBlock,
    OvisImageTransformerBlock,
)
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.acceleration import register_block
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.flow_denoiser import FlowState
from antiphon.diffusion.packed_config import PATCH
from antiphon.diffusion.packed_denoiser import PackedDenoiser
from antiphon.families.ovis_image.checkpoint import SEQUENCE_LENGTH, guidance_of, read_config


class OvisImageDenoiser(PackedDenoiser):
    """Denoises images of Ovis-Image; all texts have equal lengths and no mask."""

    read_config = staticmethod(read_config)
    guidance = staticmethod(guidance_of)

    def load(self, loader: ComponentLoader) -> None:
        super().load(loader)
        for block in (OvisImageTransformerBlock, OvisImageSingleTransformerBlock):
            register_block(block, is_text_first=True)
        self._transformer = loader.module("transformer", OvisImageTransformer2DModel)

    def num_further_positions(self, prompt: Prompt) -> int:
        return SEQUENCE_LENGTH

    def velocity(self, states: Sequence[FlowState], text: str, context: str) -> Tensor:
        embeds = torch.cat([state.inputs[text] for state in states])
        height, width = self.config.latent_size(states[0].prompt.data)
        with self._transformer.cache_context(context):
            velocity: Tensor = self._transformer(
                hidden_states=torch.cat([state.latents for state in states]),
                timestep=self.timesteps(states) / 1000,
                encoder_hidden_states=embeds,
                txt_ids=self._on_diagonal(embeds.shape[1]),
                img_ids=self._on_grid(height // PATCH, width // PATCH),
                return_dict=False,
            )[0]
        return velocity

    def _on_diagonal(self, length: int) -> Tensor:
        """Return the positions of a text's tokens, ``[length, 3]``, with equal row and column."""
        places = torch.arange(length)
        return torch.stack([torch.zeros_like(places), places, places], -1).to(
            self.device, self.dtype
        )

    def _on_grid(self, height: int, width: int) -> Tensor:
        """Return the positions of an image, ``[height * width, 3]``, row by row."""
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        places = torch.stack([torch.zeros_like(rows), rows, columns], -1)
        return places.reshape(-1, 3).to(self.device, self.dtype)
