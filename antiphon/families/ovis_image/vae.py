"""The decoder of Ovis-Image's VAE."""

from diffusers import AutoencoderKL
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.vae_decoder import VaeDecoder


class OvisImageVae(VaeDecoder):
    """Decodes latents of ``[1, C, height, width]``."""

    def load(self, loader: ComponentLoader) -> None:
        self._vae = loader.module("vae", AutoencoderKL)

    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        config = self._vae.config
        scaled = latents / config.scaling_factor + config.shift_factor
        decoded: Tensor = self._vae.decode(scaled, return_dict=False)[0]
        return decoded
