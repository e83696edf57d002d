"""GLM-Image: a language model draws the codes of an image, a diffusion transformer paints it."""

from antiphon.config.diffusion import DIFFUSERS_ACCELERATIONS, Acceleration
from antiphon.contracts.family import Extra, Family, ItemKind, Task
from antiphon.contracts.picture_types import ImageRequest
from antiphon.diffusion.stage_specs import denoiser_stage, text_encoder_stage, vae_stage
from antiphon.families.glm_image.options import FAMILY_NAME, GlmImageOptions
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name=FAMILY_NAME,
    title="GLM-Image: images from text, and edits, by a language model and a diffusion transformer",
    architectures=("GlmImagePipeline",),
    needs_checkpoint=True,
    draws_weights=True,
    extra=Extra("omni", ("diffusers", "torch", "transformers", "accelerate")),
    accelerations=DIFFUSERS_ACCELERATIONS | {Acceleration.CFG_PARALLEL},
    inspector=_HERE("checkpoint:inspect"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    tasks={
        "image": Task(
            request=ImageRequest,
            prompter=_HERE("prompt:GlmImagePrompter"),
            options=GlmImageOptions,
            encoder=_HERE.encoder(
                "image tokenizer",
                "image_tokenizer:GlmImageTokenizer",
                consumes=ItemKind.IMAGE,
                max_concurrency=1,
            ),
            pipeline=(
                _HERE.autoregressive(
                    "prior",
                    "prior:load_prior",
                    produces=ItemKind.TOKENS,
                    weights=("vision_language_encoder/*.safetensors",),
                ),
                text_encoder_stage(
                    _HERE("stages:GlmImageTextEncoder"), "vae", consumes=ItemKind.TOKENS
                ),
                denoiser_stage(_HERE("denoiser:GlmImageDenoiser")),
                vae_stage(_HERE("stages:GlmImageVae")),
            ),
        )
    },
)
