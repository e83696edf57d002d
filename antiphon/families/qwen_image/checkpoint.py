"""Configuration of a Qwen-Image checkpoint, read without torch."""

from pathlib import Path

from antiphon.contracts.inspection import Inspection
from antiphon.diffusion.image_prompt import ImagePrompt
from antiphon.diffusion.inspection import inspect_pipeline
from antiphon.diffusion.model_index import ModelIndex
from antiphon.diffusion.packed_config import PackedConfig
from antiphon.errors import ModelLoadError
from antiphon.families.kit.random_checkpoint import has_drawn_weights
from antiphon.families.qwen_image.editing import Variant

COMPONENTS = {
    "scheduler": ("FlowMatchEulerDiscreteScheduler",),
    "text_encoder": ("Qwen2_5_VLForConditionalGeneration",),
    "tokenizer": ("Qwen2Tokenizer", "Qwen2TokenizerFast"),
    "transformer": ("QwenImageTransformer2DModel",),
    "vae": ("AutoencoderKLQwenImage",),
}
_FURTHER_COMPONENTS = {"processor": ("Qwen2VLProcessor", "Qwen2_5_VLProcessor")}
"""Additional components of editing checkpoints."""
_TOLD = {
    Variant.GENERATE: "images from text",
    Variant.EDIT: "an image edited by a text",
    Variant.EDIT_PLUS: "images edited by a text, several at once",
}
TEMPLATE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity,"
    " text, spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n{}"
    "<|im_end|>\n<|im_start|>assistant\n"
)
"""Template of the text encoder, as in the pipeline of diffusers."""
NUM_DROPPED_TOKENS = 34
"""Tokens of the template before the prompt, which are hidden from the denoiser."""
MAX_SEQUENCE_LENGTH = 1024
"""Maximum text tokens of the denoiser."""


def read_config(path: Path) -> PackedConfig:
    """Read a checkpoint's configuration; raises ModelLoadError."""
    index = ModelIndex.read(path)
    is_for_edits = variant_of(index) is not Variant.GENERATE
    further = _FURTHER_COMPONENTS if is_for_edits else {}
    index.check_all({**COMPONENTS, **further})
    transformer, vae = index.config("transformer"), index.config("vae")
    for key in ("guidance_embeds", "use_additional_t_cond", "use_layer3d_rope"):
        transformer.expect(key, False, default=False)
    downsamplings = vae.values.get("temperal_downsample", [False, True, True])
    if not isinstance(downsamplings, list):
        raise vae.error("temperal_downsample", "must be a list")
    return PackedConfig.read(index, len(downsamplings))


def variant_of(index: ModelIndex) -> Variant:
    """Return the pipeline of a checkpoint; raises ModelLoadError if it is not of this family."""
    if index.pipeline not in [*Variant]:
        raise ModelLoadError(f"{index.path}: '{index.pipeline}' is not supported")
    return Variant(index.pipeline)


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    return inspect_pipeline(path, _facts, is_drawn=has_drawn_weights(path))


def _facts(path: Path) -> dict[str, str | int]:
    config = read_config(path)
    return {
        "Task": _TOLD[variant_of(config.index)],
        "Sizes": f"multiples of {config.size_multiple} pixels",
    }


def guidance_of(data: ImagePrompt) -> float | None:
    """Return the scale of classifier-free guidance; ``None`` without it.

    As in the pipeline of diffusers, it requires a negative prompt, which may be empty, and a scale
    above 1.
    """
    scale = data.parameters.true_cfg_scale
    if data.negative_prompt is None or scale is None or scale <= 1:
        return None
    return scale
