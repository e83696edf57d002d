"""Encoder of Qwen-Image-Edit: embeddings of text and images, and latents of the images."""

from collections.abc import Mapping, Sequence
from typing import Any

import PIL.Image
import torch
from diffusers import AutoencoderKLQwenImage, QwenImageEditPipeline, QwenImageEditPlusPipeline
from torch import Tensor
from transformers import (
    BatchFeature,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen2VLImageProcessorPil,
)

from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.component_stages import TextEncoder
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.image_prompt import ImagePrompt
from antiphon.diffusion.packed_config import PATCH
from antiphon.families.qwen_image import editing
from antiphon.families.qwen_image.checkpoint import guidance_of, read_config, variant_of
from antiphon.families.qwen_image.editing import Variant, reference_sizes, scaled_size

_IMAGE_TOKEN = "<|image_pad|>"


class ImageTextProcessor:
    """Tokenizer of texts with images, equivalent to transformers' ``Qwen2VLProcessor``.

    That class requires torchvision for videos, which are not supported here.
    """

    def __init__(self, image_processor: Any, tokenizer: Any) -> None:
        self._image_processor = image_processor
        self._tokenizer = tokenizer

    def __call__(
        self, text: Sequence[str], images: Any, padding: bool, return_tensors: str
    ) -> BatchFeature:
        """Return token ids, attention mask, image patches, and patch grids.

        Each image token in the text is repeated once per position of the image.
        """
        pixels = self._image_processor(images=images, return_tensors=return_tensors)
        lengths = pixels["image_grid_thw"].prod(-1) // self._image_processor.merge_size**2
        remaining = iter(lengths.tolist())
        texts = []
        for each in text:
            first, *rest = each.split(_IMAGE_TOKEN)
            texts.append(first + "".join(_IMAGE_TOKEN * next(remaining) + part for part in rest))
        tokens = self._tokenizer(texts, padding=padding, return_tensors=return_tensors)
        return BatchFeature({**tokens, **pixels})


class QwenImageEditEncoder(TextEncoder):
    """Yields text embeddings and ``image_latents``, ``[1, positions, channels]``."""

    def load(self, loader: ComponentLoader) -> None:
        self._config = read_config(loader.index.path)
        self._variant = variant_of(loader.index)
        kind = QwenImageEditPipeline if self._variant is Variant.EDIT else QwenImageEditPlusPipeline
        tokenizer = loader.other("tokenizer", Qwen2Tokenizer)
        self._pipeline = kind(
            scheduler=None,
            vae=loader.module("vae", AutoencoderKLQwenImage),
            text_encoder=loader.module("text_encoder", Qwen2_5_VLForConditionalGeneration),
            tokenizer=tokenizer,
            processor=ImageTextProcessor(
                loader.other("processor", Qwen2VLImageProcessorPil), tokenizer
            ),
            transformer=None,
        )

    def encode(self, prompt: Prompt) -> Mapping[str, Tensor]:
        data: ImagePrompt = prompt.data
        images = [PIL.Image.fromarray(each).convert("RGB") for each in data.images]
        shown = self._shown(images)
        tensors = {
            "prompt_embeds": self._embeds(data.prompt, shown),
            "image_latents": self._latents(data, images),
        }
        if guidance_of(data) is not None:
            assert data.negative_prompt is not None
            tensors["negative_prompt_embeds"] = self._embeds(data.negative_prompt, shown)
        return tensors

    def _shown(self, images: Sequence[PIL.Image.Image]) -> list[PIL.Image.Image]:
        """Return the images as resized for the text encoder."""
        area = editing.VAE_AREA if self._variant is Variant.EDIT else editing.CONDITION_AREA
        sizes = [scaled_size(area, *each.size) for each in images]
        return [
            self._pipeline.image_processor.resize(image, height, width)
            for image, (width, height) in zip(images, sizes, strict=True)
        ]

    def _embeds(self, text: str, shown: list[PIL.Image.Image]) -> Tensor:
        embeds: Tensor = self._pipeline.encode_prompt(
            text, image=shown, device=self._loader.device
        )[0]
        return embeds

    def _latents(self, data: ImagePrompt, images: Sequence[PIL.Image.Image]) -> Tensor:
        """Return the packed latents of the images, concatenated."""
        loader, processor = self._loader, self._pipeline.image_processor
        packed = []
        for image, (width, height) in zip(images, reference_sizes(data), strict=True):
            pixels = processor.preprocess(image, height, width).unsqueeze(2)
            _, latents = self._pipeline.prepare_latents(
                pixels,
                1,
                self._config.in_channels // PATCH**2,
                height,
                width,
                loader.dtype,
                loader.device,
                None,
                latents=torch.empty(0),  # prevents drawing noise
            )
            packed.append(latents)
        return torch.cat(packed, dim=1)
