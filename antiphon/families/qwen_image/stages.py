"""Text encoder of Qwen-Image, hidden states of Qwen2.5-VL, and decoder of its video VAE."""

from collections.abc import Mapping

import torch
from diffusers import AutoencoderKLQwenImage, QwenImagePipeline
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.component_stages import TextEncoder, VaeDecoder, channel_statistics
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.image_prompt import ImagePrompt
from antiphon.diffusion.model_index import ModelIndex
from antiphon.families.qwen_image.checkpoint import MAX_SEQUENCE_LENGTH, guidance_of, variant_of
from antiphon.families.qwen_image.editing import Variant


def load_text_encoder(context: LoadContext) -> TextEncoder:
    """Load the encoder of a checkpoint, for texts or texts and images; raises ModelLoadError."""
    if variant_of(ModelIndex.read(context.checkpoint)) is Variant.GENERATE:
        return QwenImageTextEncoder(context)
    from antiphon.families.qwen_image.image_encoder import QwenImageEditEncoder

    return QwenImageEditEncoder(context)


class QwenImageTextEncoder(TextEncoder):
    """Yields ``prompt_embeds``, ``[1, T, D]``, and ``negative_prompt_embeds`` with guidance."""

    def load(self, loader: ComponentLoader) -> None:
        self._pipeline = QwenImagePipeline(
            scheduler=None,
            vae=None,
            text_encoder=loader.module("text_encoder", Qwen2_5_VLForConditionalGeneration),
            tokenizer=loader.other("tokenizer", Qwen2Tokenizer),
            transformer=None,
        )

    def encode(self, prompt: Prompt) -> Mapping[str, Tensor]:
        data: ImagePrompt = prompt.data
        embeds = {"prompt_embeds": self._embeds(data.prompt)}
        if guidance_of(data) is not None:
            assert data.negative_prompt is not None
            embeds["negative_prompt_embeds"] = self._embeds(data.negative_prompt)
        return embeds

    def _embeds(self, text: str) -> Tensor:
        embeds: Tensor = self._pipeline.encode_prompt(
            text, device=self._loader.device, max_sequence_length=MAX_SEQUENCE_LENGTH
        )[0]
        return embeds


class QwenImageVae(VaeDecoder):
    """Decodes latents of ``[1, C, height, width]``: an image is a video of one frame."""

    def load(self, loader: ComponentLoader) -> None:
        self._vae = loader.module("vae", AutoencoderKLQwenImage)
        like = torch.empty(0, dtype=loader.dtype, device=loader.device)
        self._mean, std = channel_statistics(self._vae.config, 3, like)
        self._inverse_std = 1.0 / std

    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        frames = latents.unsqueeze(2) / self._inverse_std + self._mean
        decoded: Tensor = self._vae.decode(frames, return_dict=False)[0]
        return decoded[:, :, 0]
