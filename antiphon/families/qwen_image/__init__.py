"""Qwen-Image and Qwen-Image-Edit: images from text, and images changed; networks of diffusers.

The published weights are under the Apache License 2.0.
"""

from antiphon.config.diffusion import DIFFUSERS_ACCELERATIONS, Acceleration
from antiphon.contracts.family import Extra, Family, ItemKind, Ref, StageKind, StageSpec, Task
from antiphon.contracts.picture_types import ImageRequest

_HERE = "antiphon.families.qwen_image"

FAMILY = Family(
    name="qwen_image",
    title="Qwen-Image and Qwen-Image-Edit: images from text, and images changed as a text says",
    architectures=("QwenImagePipeline", "QwenImageEditPipeline", "QwenImageEditPlusPipeline"),
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
    accelerations=DIFFUSERS_ACCELERATIONS | {Acceleration.ULYSSES, Acceleration.CFG_PARALLEL},
    tasks={
        "image": Task(
            request=ImageRequest,
            prompter=Ref(f"{_HERE}.prompt:QwenImagePrompter"),
            pipeline=(
                StageSpec(
                    "text_encoder",
                    StageKind.GENERATOR,
                    ItemKind.TEXT,
                    ItemKind.LATENTS,
                    Ref(f"{_HERE}.text_encoder:load_text_encoder"),
                    weights=("text_encoder/*.safetensors",),
                ),
                StageSpec(
                    "denoiser",
                    StageKind.DIFFUSION,
                    ItemKind.LATENTS,
                    ItemKind.LATENTS,
                    Ref(f"{_HERE}.denoiser:QwenImageDenoiser"),
                    weights=("transformer/*.safetensors",),
                ),
                StageSpec(
                    "vae",
                    StageKind.GENERATOR,
                    ItemKind.LATENTS,
                    ItemKind.IMAGE,
                    Ref(f"{_HERE}.vae:QwenImageVae"),
                    weights=("vae/*.safetensors",),
                ),
            ),
        )
    },
)
