"""Wan 2.1 and 2.2: videos from text, or from text and the first frame, by diffusers' components."""

from antiphon.config.diffusion import DIFFUSERS_ACCELERATIONS, Acceleration
from antiphon.contracts.family import Extra, Family, ItemKind, Task
from antiphon.contracts.picture_types import VideoRequest
from antiphon.diffusion.stage_specs import denoiser_stage, text_encoder_stage, vae_stage
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name="wan_video",
    title="Wan 2.1 and 2.2: videos from text, or from text and a first frame",
    architectures=("WanPipeline", "WanImageToVideoPipeline"),
    needs_checkpoint=True,
    draws_weights=True,
    extra=Extra("omni", ("diffusers", "torch", "transformers", "accelerate", "ftfy", "PIL")),
    inspector=_HERE("config:inspect"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    accelerations=DIFFUSERS_ACCELERATIONS
    | {Acceleration.FLOW_SHIFT, Acceleration.BOUNDARY_RATIO}
    | {Acceleration.ULYSSES, Acceleration.RING, Acceleration.CFG_PARALLEL},
    tasks={
        "video": Task(
            request=VideoRequest,
            prompter=_HERE("prompt:WanPrompter"),
            pipeline=(
                # Besides the text it encodes the first frame, if there is one: see its docstring.
                text_encoder_stage(
                    _HERE("stages:WanTextEncoder"), "image_encoder", max_concurrency=1
                ),
                denoiser_stage(_HERE("denoiser:WanDenoiser"), "transformer_2"),
                vae_stage(_HERE("stages:WanVaeDecoder"), ItemKind.VIDEO, max_concurrency=1),
            ),
        )
    },
)
