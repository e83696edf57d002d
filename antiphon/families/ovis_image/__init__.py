"""Ovis-Image: images from text, by a transformer over latents; networks of diffusers.

The published weights are under the Apache License 2.0.
"""

from antiphon.config.diffusion import DIFFUSERS_ACCELERATIONS, Acceleration
from antiphon.contracts.family import Extra, Family, ItemKind, Ref, StageKind, StageSpec, Task
from antiphon.contracts.picture_types import ImageRequest

_HERE = "antiphon.families.ovis_image"

FAMILY = Family(
    name="ovis_image",
    title="Ovis-Image: images from text, small, and good at writing in them",
    architectures=("OvisImagePipeline",),
    needs_checkpoint=True,
    extra=Extra(
        "omni",
        (
            ("diffusers", "diffusers"),
            ("torch", "PyTorch"),
            ("transformers", "transformers"),
            ("accelerate", "accelerate"),
        ),
    ),
    inspector=Ref(f"{_HERE}.checkpoint:inspect"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
    accelerations=DIFFUSERS_ACCELERATIONS | {Acceleration.CFG_PARALLEL},
    tasks={
        "image": Task(
            request=ImageRequest,
            prompter=Ref(f"{_HERE}.prompt:OvisImagePrompter"),
            pipeline=(
                StageSpec(
                    "text_encoder",
                    StageKind.GENERATOR,
                    ItemKind.TEXT,
                    ItemKind.LATENTS,
                    Ref(f"{_HERE}.text_encoder:OvisImageTextEncoder"),
                    weights=("text_encoder/*.safetensors",),
                ),
                StageSpec(
                    "denoiser",
                    StageKind.DIFFUSION,
                    ItemKind.LATENTS,
                    ItemKind.LATENTS,
                    Ref(f"{_HERE}.denoiser:OvisImageDenoiser"),
                    weights=("transformer/*.safetensors",),
                ),
                StageSpec(
                    "vae",
                    StageKind.GENERATOR,
                    ItemKind.LATENTS,
                    ItemKind.IMAGE,
                    Ref(f"{_HERE}.vae:OvisImageVae"),
                    weights=("vae/*.safetensors",),
                ),
            ),
        )
    },
)
