"""Decoder of Qwen-Image's video VAE: an image is a video of one frame."""

import torch
from diffusers import AutoencoderKLQwenImage
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.vae_decoder import VaeDecoder


class QwenImageVae(VaeDecoder):
    """Decodes latents of ``[1, C, height, width]``."""

    def load(self, loader: ComponentLoader) -> None:
        self._vae = loader.module("vae", AutoencoderKLQwenImage)
        config = self._vae.config
        mean = torch.tensor(config.latents_mean).view(1, config.z_dim, 1, 1, 1)
        self._mean = mean.to(loader.device, loader.dtype)
        std = torch.tensor(config.latents_std).view(1, config.z_dim, 1, 1, 1)
        self._inverse_std = 1.0 / std.to(loader.device, loader.dtype)

    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        frames = latents.unsqueeze(2) / self._inverse_std + self._mean
        decoded: Tensor = self._vae.decode(frames, return_dict=False)[0]
        return decoded[:, :, 0]
