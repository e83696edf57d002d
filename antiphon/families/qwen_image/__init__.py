"""Qwen-Image and Qwen-Image-Edit: image generation and editing with networks of diffusers.

The published weights are under the Apache License 2.0.
"""

from antiphon.config.diffusion import DIFFUSERS_ACCELERATIONS, Acceleration
from antiphon.contracts.family import Extra, Family, Task
from antiphon.contracts.picture_types import ImageRequest
from antiphon.diffusion.stage_specs import denoiser_stage, text_encoder_stage, vae_stage
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name="qwen_image",
    title="Qwen-Image and Qwen-Image-Edit: images from text, and images edited by a text",
    architectures=("QwenImagePipeline", "QwenImageEditPipeline", "QwenImageEditPlusPipeline"),
    needs_checkpoint=True,
    draws_weights=True,
    extra=Extra("omni", ("diffusers", "torch", "transformers", "accelerate")),
    inspector=_HERE("checkpoint:inspect"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    accelerations=DIFFUSERS_ACCELERATIONS | {Acceleration.ULYSSES, Acceleration.CFG_PARALLEL},
    tasks={
        "image": Task(
            request=ImageRequest,
            prompter=_HERE("prompt:QwenImagePrompter"),
            pipeline=(
                text_encoder_stage(_HERE("stages:load_text_encoder")),
                denoiser_stage(_HERE("denoiser:QwenImageDenoiser")),
                vae_stage(_HERE("stages:QwenImageVae")),
            ),
        )
    },
)
