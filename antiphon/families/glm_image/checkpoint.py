"""Configuration of a GLM-Image checkpoint; read without torch."""

from pathlib import Path

from antiphon.contracts.inspection import Inspection
from antiphon.diffusion.inspection import inspect_pipeline
from antiphon.diffusion.model_index import ModelIndex
from antiphon.families.glm_image.config import CODE_PIXELS, LATENT_PIXELS, PriorConfig, load_config

COMPONENTS = {
    "processor": ("GlmImageProcessor",),
    "scheduler": ("FlowMatchEulerDiscreteScheduler",),
    "text_encoder": ("T5EncoderModel",),
    "tokenizer": ("ByT5Tokenizer",),
    "transformer": ("GlmImageTransformer2DModel",),
    "vae": ("AutoencoderKL",),
    "vision_language_encoder": ("GlmImageForConditionalGeneration",),
}


def read_config(path: Path) -> PriorConfig:
    """Read a checkpoint's configuration.

    Raises:
        ModelLoadError: A file is missing or has unsupported content.
    """
    index = ModelIndex.read(path)
    for name, classes in COMPONENTS.items():
        index.check(name, *classes)
    config = load_config(path)
    transformer, vae = index.config("transformer"), index.config("vae")
    transformer.expect("patch_size", 2, default=2)
    codebook = "prior_vq_quantizer_codebook_size"
    transformer.expect(codebook, config.num_codes, default=16384)
    channels = vae.values.get("block_out_channels")
    if not isinstance(channels, list) or 2 ** (len(channels) - 1) != LATENT_PIXELS:
        raise vae.error("block_out_channels", f"must be 4 numbers, but is {channels!r}")
    return config


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""

    def facts() -> dict[str, str | int]:
        config = read_config(path)
        return {
            "Task": "images from text",
            "Sizes": f"multiples of {CODE_PIXELS} pixels",
            "Codes": config.num_codes,
        }

    return inspect_pipeline(path, facts)
