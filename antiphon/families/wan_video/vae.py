"""The stage that turns latents into the frames of a video."""

from typing import Any

import torch
from diffusers import AutoencoderKLWan
from torch import Tensor

from antiphon.contracts.picture_types import Video
from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.arrays import to_pixels
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.vae_decoder import VaeDecoder
from antiphon.families.wan_video.latents import LatentScale


class WanVaeDecoder(VaeDecoder):
    """The decoding half of the VAE, in float32, as its authors advise."""

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    def load(self, loader: ComponentLoader) -> None:
        vae: Any = loader.module("vae", AutoencoderKLWan, dtype=self.dtype)
        vae.encoder = vae.quant_conv = None
        self._vae = vae
        self._scale = LatentScale(vae.config.latents_mean, vae.config.latents_std, loader.device)

    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        pixels: Tensor = self._vae.decode(self._scale.denormalized(latents), return_dict=False)[0]
        return pixels

    def item(self, values: Tensor, prompt: Prompt, preview_index: int | None) -> Video:
        return Video(to_pixels(values.movedim(0, 1)), prompt.data.fps)
