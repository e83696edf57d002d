"""The decoder of GLM-Image's VAE."""

import torch
from diffusers import AutoencoderKL
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.vae_decoder import VaeDecoder


class GlmImageVae(VaeDecoder):
    """Decodes latents of ``[1, C, height, width]``, which are normalized channel by channel."""

    def load(self, loader: ComponentLoader) -> None:
        self._vae = loader.module("vae", AutoencoderKL)
        config = self._vae.config

        def channels(values: list[float]) -> Tensor:
            return torch.tensor(values).view(1, -1, 1, 1).to(loader.device, loader.dtype)

        self._mean, self._std = channels(config.latents_mean), channels(config.latents_std)

    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        decoded: Tensor = self._vae.decode(latents * self._std + self._mean, return_dict=False)[0]
        return decoded
