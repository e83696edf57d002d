"""Text encoder of Ovis-Image, the last hidden states of a Qwen3 model, and decoder of its VAE."""

from collections.abc import Mapping

from diffusers import AutoencoderKL, OvisImagePipeline
from torch import Tensor
from transformers import Qwen2Tokenizer, Qwen3Model

from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.component_stages import TextEncoder, VaeDecoder
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.image_prompt import ImagePrompt
from antiphon.families.ovis_image.checkpoint import SEQUENCE_LENGTH, guidance_of


class OvisImageTextEncoder(TextEncoder):
    """Yields ``prompt_embeds``, ``[1, 256, D]``, and ``negative_prompt_embeds`` with guidance."""

    def load(self, loader: ComponentLoader) -> None:
        self._pipeline = OvisImagePipeline(
            scheduler=None,
            vae=None,
            text_encoder=loader.module("text_encoder", Qwen3Model),
            tokenizer=loader.other("tokenizer", Qwen2Tokenizer),
            transformer=None,
        )

    def encode(self, prompt: Prompt) -> Mapping[str, Tensor]:
        data: ImagePrompt = prompt.data
        is_guided = guidance_of(data) is not None
        embeds, negative, *_ = self._pipeline.encode_prompt(
            data.prompt,
            negative_prompt=data.negative_prompt,
            do_classifier_free_guidance=is_guided,
            device=self._loader.device,
            max_sequence_length=SEQUENCE_LENGTH,
        )
        made = {"prompt_embeds": embeds}
        return {**made, "negative_prompt_embeds": negative} if is_guided else made


class OvisImageVae(VaeDecoder):
    """Decodes latents of ``[1, C, height, width]``."""

    def load(self, loader: ComponentLoader) -> None:
        self._vae = loader.module("vae", AutoencoderKL)

    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        config = self._vae.config
        scaled = latents / config.scaling_factor + config.shift_factor
        decoded: Tensor = self._vae.decode(scaled, return_dict=False)[0]
        return decoded
