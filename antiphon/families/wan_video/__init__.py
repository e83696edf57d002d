"""Wan 2.1 and 2.2: videos from text, or from text and the first frame, by diffusers' components."""

from antiphon.config.diffusion import DIFFUSERS_ACCELERATIONS, Acceleration
from antiphon.contracts.family import Extra, Family, ItemKind, Ref, StageKind, StageSpec, Task
from antiphon.contracts.picture_types import VideoRequest

_HERE = "antiphon.families.wan_video"

FAMILY = Family(
    name="wan_video",
    title="Wan 2.1 and 2.2: videos from text, or from text and a first frame",
    architectures=("WanPipeline", "WanImageToVideoPipeline"),
    needs_checkpoint=True,
    extra=Extra(
        "omni",
        (
            ("diffusers", "diffusers"),
            ("torch", "PyTorch"),
            ("transformers", "transformers"),
            ("accelerate", "accelerate"),
            ("ftfy", "ftfy"),
            ("PIL", "Pillow"),
        ),
    ),
    inspector=Ref(f"{_HERE}.checkpoint_info:inspect"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
    accelerations=DIFFUSERS_ACCELERATIONS
    | {Acceleration.FLOW_SHIFT, Acceleration.BOUNDARY_RATIO}
    | {Acceleration.ULYSSES, Acceleration.RING, Acceleration.CFG_PARALLEL},
    tasks={
        "video": Task(
            request=VideoRequest,
            prompter=Ref(f"{_HERE}.prompt:WanPrompter"),
            pipeline=(
                # Besides the text it encodes the first frame, if there is one: see its docstring.
                StageSpec(
                    "text_encoder",
                    StageKind.GENERATOR,
                    ItemKind.TEXT,
                    ItemKind.LATENTS,
                    Ref(f"{_HERE}.text_encoder:WanTextEncoder"),
                    max_concurrency=1,
                    weights=("text_encoder/*.safetensors", "image_encoder/*.safetensors"),
                ),
                StageSpec(
                    "denoiser",
                    StageKind.DIFFUSION,
                    ItemKind.LATENTS,
                    ItemKind.LATENTS,
                    Ref(f"{_HERE}.denoiser:WanDenoiser"),
                    weights=("transformer/*.safetensors", "transformer_2/*.safetensors"),
                ),
                StageSpec(
                    "vae",
                    StageKind.GENERATOR,
                    ItemKind.LATENTS,
                    ItemKind.VIDEO,
                    Ref(f"{_HERE}.vae:WanVaeDecoder"),
                    max_concurrency=1,
                    weights=("vae/*.safetensors",),
                ),
            ),
        )
    },
)
