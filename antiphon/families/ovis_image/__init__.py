"""Ovis-Image: images from text, by a transformer over latents; networks of diffusers.

The published weights are under the Apache License 2.0.
"""

from antiphon.config.diffusion import DIFFUSERS_ACCELERATIONS, Acceleration
from antiphon.contracts.family import Extra, Family, Task
from antiphon.contracts.picture_types import ImageRequest
from antiphon.diffusion.stage_specs import denoiser_stage, text_encoder_stage, vae_stage
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name="ovis_image",
    title="Ovis-Image: images from text, small, and good at writing in them",
    architectures=("OvisImagePipeline",),
    needs_checkpoint=True,
    draws_weights=True,
    extra=Extra("omni", ("diffusers", "torch", "transformers", "accelerate")),
    inspector=_HERE("checkpoint:inspect"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    accelerations=DIFFUSERS_ACCELERATIONS | {Acceleration.CFG_PARALLEL},
    tasks={
        "image": Task(
            request=ImageRequest,
            prompter=_HERE("prompt:OvisImagePrompter"),
            pipeline=(
                text_encoder_stage(_HERE("stages:OvisImageTextEncoder")),
                denoiser_stage(_HERE("denoiser:OvisImageDenoiser")),
                vae_stage(_HERE("stages:OvisImageVae")),
            ),
        )
    },
)
