"""GLM-Image: a language model draws the codes of an image, a diffusion transformer paints it."""

from antiphon.config.diffusion import DIFFUSERS_ACCELERATIONS, Acceleration
from antiphon.contracts.family import Extra, Family, ItemKind, Ref, StageKind, StageSpec, Task
from antiphon.contracts.picture_types import ImageRequest
from antiphon.families.glm_image.options import FAMILY_NAME, GlmImageOptions

_HERE = "antiphon.families.glm_image"

FAMILY = Family(
    name=FAMILY_NAME,
    title="GLM-Image: images from text, and edits, by a language model and a diffusion transformer",
    architectures=("GlmImagePipeline",),
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
    accelerations=DIFFUSERS_ACCELERATIONS | {Acceleration.CFG_PARALLEL},
    inspector=Ref(f"{_HERE}.checkpoint:inspect"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
    tasks={
        "image": Task(
            request=ImageRequest,
            prompter=Ref(f"{_HERE}.prompt:GlmImagePrompter"),
            options=GlmImageOptions,
            encoder=StageSpec(
                "image tokenizer",
                StageKind.ENCODER,
                ItemKind.IMAGE,
                ItemKind.LATENTS,
                Ref(f"{_HERE}.image_tokenizer:GlmImageTokenizer"),
                max_concurrency=1,
            ),
            pipeline=(
                StageSpec(
                    "prior",
                    StageKind.AUTOREGRESSIVE,
                    ItemKind.TEXT,
                    ItemKind.TOKENS,
                    Ref(f"{_HERE}.prior:load_prior"),
                    weights=("vision_language_encoder/*.safetensors",),
                ),
                StageSpec(
                    "text_encoder",
                    StageKind.GENERATOR,
                    ItemKind.TOKENS,
                    ItemKind.LATENTS,
                    Ref(f"{_HERE}.text_encoder:GlmImageTextEncoder"),
                    weights=("text_encoder/*.safetensors", "vae/*.safetensors"),
                ),
                StageSpec(
                    "denoiser",
                    StageKind.DIFFUSION,
                    ItemKind.LATENTS,
                    ItemKind.LATENTS,
                    Ref(f"{_HERE}.denoiser:GlmImageDenoiser"),
                    weights=("transformer/*.safetensors",),
                ),
                StageSpec(
                    "vae",
                    StageKind.GENERATOR,
                    ItemKind.LATENTS,
                    ItemKind.IMAGE,
                    Ref(f"{_HERE}.vae:GlmImageVae"),
                    weights=("vae/*.safetensors",),
                ),
            ),
        )
    },
)
