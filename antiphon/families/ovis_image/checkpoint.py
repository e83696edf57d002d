"""Configuration of an Ovis-Image checkpoint, read without torch."""

from pathlib import Path

from antiphon.contracts.inspection import Inspection
from antiphon.diffusion.image_prompt import ImagePrompt
from antiphon.diffusion.inspection import inspect_pipeline
from antiphon.diffusion.model_index import ModelIndex
from antiphon.diffusion.packed_config import PackedConfig
from antiphon.families.kit.random_checkpoint import has_drawn_weights

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
    """Read a checkpoint's configuration; raises ModelLoadError."""
    index = ModelIndex.read(path)
    index.check_all(COMPONENTS)
    index.config("scheduler").expect("use_flow_sigmas", False, default=False)
    blocks = index.config("vae").values.get("block_out_channels")
    if not isinstance(blocks, list):
        raise index.config("vae").error("block_out_channels", "must be a list")
    return PackedConfig.read(index, len(blocks) - 1)


def guidance_of(data: ImagePrompt) -> float | None:
    """Return the scale of classifier-free guidance; ``None`` without it.

    As in the pipeline of diffusers, a missing negative prompt is an empty one.
    """
    scale = data.parameters.guidance_scale
    return None if scale is None or scale <= 1 else scale


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    return inspect_pipeline(path, _facts, is_drawn=has_drawn_weights(path))


def _facts(path: Path) -> dict[str, str | int]:
    multiple = read_config(path).size_multiple
    return {"Task": "images from text", "Sizes": f"multiples of {multiple} pixels"}
