"""Configuration of an Ovis-Image checkpoint, read without torch."""

from pathlib import Path

from antiphon.contracts.inspection import Inspection
from antiphon.diffusion.image_prompt import ImagePrompt
from antiphon.diffusion.inspection import inspect_pipeline
from antiphon.diffusion.model_index import ModelIndex
from antiphon.diffusion.packed_config import PackedConfig

COMPONENTS = {
    "scheduler": ("FlowMatchEulerDiscreteScheduler",),
    "text_encoder": ("Qwen3Model",),
    "tokenizer": ("Qwen2Tokenizer", "Qwen2TokenizerFast"),
    "transformer": ("OvisImageTransformer2DModel",),
    "vae": ("AutoencoderKL",),
}
INSTRUCTION = (
    "Describe the image by detailing the color, quantity, text, shape, size, texture, spatial"
    " relationships of the objects and background: "
)
"""Instruction before the prompt in the text encoder, as in the pipeline of diffusers."""
NUM_DROPPED_TOKENS = 28
"""Tokens before the prompt, which are hidden from the denoiser."""
SEQUENCE_LENGTH = 256
"""Text tokens of the denoiser, padded with zeros."""


def read_config(path: Path) -> PackedConfig:
    """Read a checkpoint's configuration.

    Raises:
        ModelLoadError: a file is missing, or its contents are not supported.
    """
    index = ModelIndex.read(path)
    for name, classes in COMPONENTS.items():
        index.check(name, *classes)
    transformer, scheduler = index.config("transformer"), index.config("scheduler")
    scheduler.expect("use_flow_sigmas", False, default=False)
    blocks = index.config("vae").values.get("block_out_channels")
    if not isinstance(blocks, list):
        raise index.config("vae").error("block_out_channels", "must be a list")
    return PackedConfig(
        index=index,
        vae_scale_factor=2 ** (len(blocks) - 1),
        in_channels=transformer.integer("in_channels", 64),
        inner_dim=transformer.integer("num_attention_heads", 24)
        * transformer.integer("attention_head_dim", 128),
        # A schedule stretched to a terminal level needs two points.
        min_steps=2 if scheduler.values.get("shift_terminal") else 1,
    )


def guidance_of(data: ImagePrompt) -> float | None:
    """Return the scale of classifier-free guidance; ``None`` without it.

    As in the pipeline of diffusers, a missing negative prompt is an empty one.
    """
    scale = data.parameters.guidance_scale
    return None if scale is None or scale <= 1 else scale


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""

    def facts() -> dict[str, str | int]:
        config = read_config(path)
        return {"Task": "images from text", "Sizes": f"multiples of {config.size_multiple} pixels"}

    return inspect_pipeline(path, facts)
