"""Stages around the denoiser of GLM-Image: encoder of glyphs and codes, and VAE decoder."""

from collections.abc import Mapping

import numpy as np
import PIL.Image
import torch
from diffusers import AutoencoderKL, GlmImagePipeline
from numpy.typing import NDArray
from torch import Tensor
from transformers import ByT5Tokenizer, T5EncoderModel

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.component_stages import TextEncoder, VaeDecoder, channel_statistics
from antiphon.diffusion.components import ComponentLoader
from antiphon.errors import EngineError
from antiphon.families.glm_image.grids import PriorPrompt
from antiphon.families.glm_image.prompt import GlmImagePrompt

_TOKENS_A_SIDE = 2  # of the denoiser, for a code


class GlmImageTextEncoder(TextEncoder):
    """Yields ``prior_token_ids``, ``[1, T]``, ``prompt_embeds``, and ``negative_prompt_embeds``.

    The negative embeddings, of no text, are there with guidance only. Of each image to be edited
    there are ``source_latents_N``, ``[1, C, height, width]``, and ``source_token_ids_N``, ``[T]``.
    """

    def load(self, loader: ComponentLoader) -> None:
        self._pipeline = GlmImagePipeline(
            tokenizer=loader.other("tokenizer", ByT5Tokenizer),
            processor=None,
            text_encoder=loader.module("text_encoder", T5EncoderModel),
            vision_language_encoder=None,
            vae=loader.module("vae", AutoencoderKL),
            transformer=None,
            scheduler=None,
        )

    def encode(self, prompt: Prompt) -> Mapping[str, Tensor]:
        data: GlmImagePrompt = prompt.data
        latents: Latents = prompt.conditioning
        encoded = {"prior_token_ids": torch.from_numpy(prior_tokens(data.prior, latents))[None]}
        encoded["prompt_embeds"] = self._embeds(data.image.prompt)
        if data.guidance is not None:
            encoded["negative_prompt_embeds"] = self._embeds("")
        if data.image.images:
            encoded |= self._sources(data)
        return encoded

    def _sources(self, data: GlmImagePrompt) -> dict[str, Tensor]:
        """Return latents and tokens of each image to be edited, by numbered names."""
        vae, loader, found = self._pipeline.vae, self._loader, dict[str, Tensor]()
        mean, std = _statistics(vae, loader)
        ids = np.array(data.prior.ids)
        for number, (pixels, source) in enumerate(
            zip(data.image.images, data.prior.sources, strict=True)
        ):
            height, width = pixels.shape[:2]
            image = PIL.Image.fromarray(pixels)
            values = self._pipeline.image_processor.preprocess(image, height=height, width=width)
            latents = vae.encode(values.to(loader.device, loader.dtype)).latent_dist.mode()
            found[f"source_latents_{number}"] = (latents - mean) / std
            codes = ids[source.place : source.place + source.grid.num_codes]
            tokens = upsampled(codes.reshape(source.grid.height, source.grid.width))
            found[f"source_token_ids_{number}"] = torch.from_numpy(tokens)
        return found

    def _embeds(self, text: str) -> Tensor:
        embeds: Tensor = self._pipeline.encode_prompt(
            text, False, device=self._loader.device, dtype=self._loader.dtype
        )[0]
        return embeds


def prior_tokens(prompt: PriorPrompt, drawn: Latents) -> NDArray[np.int64]:
    """Return the denoiser's tokens for what the prior has drawn, row by row: four for a code.

    Raises:
        EngineError: the prior has failed before its grids were full.
    """
    codes = np.concatenate(drawn.data)
    if len(codes) != prompt.num_codes:
        raise EngineError(
            f"The prior ended after {len(codes)} of the {prompt.num_codes} codes of the image."
        )
    return upsampled(prompt.image_codes(codes))


def upsampled(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the denoiser's tokens of codes, ``[height, width]``: four for each, row by row."""
    tokens: NDArray[np.int64] = codes.repeat(_TOKENS_A_SIDE, 0).repeat(_TOKENS_A_SIDE, 1).ravel()
    return tokens


class GlmImageVae(VaeDecoder):
    """Decodes latents of ``[1, C, height, width]``, which are normalized channel by channel."""

    def load(self, loader: ComponentLoader) -> None:
        self._vae = loader.module("vae", AutoencoderKL)
        self._mean, self._std = _statistics(self._vae, loader)

    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        decoded: Tensor = self._vae.decode(latents * self._std + self._mean, return_dict=False)[0]
        return decoded


def _statistics(vae: AutoencoderKL, loader: ComponentLoader) -> tuple[Tensor, Tensor]:
    like = torch.empty(0, dtype=loader.dtype, device=loader.device)
    return channel_statistics(vae.config, 2, like)
