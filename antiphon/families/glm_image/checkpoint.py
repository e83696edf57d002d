"""Configuration and tensor layout of a GLM-Image checkpoint; read without torch."""

from pathlib import Path

from antiphon.contracts.inspection import Inspection
from antiphon.diffusion.inspection import inspect_pipeline
from antiphon.diffusion.model_index import ModelIndex
from antiphon.families.glm_image.config import (
    CODE_PIXELS,
    LATENT_PIXELS,
    PRIOR_DIRECTORY,
    PriorConfig,
    load_config,
)
from antiphon.families.kit.layouts import Layout, attention, layer_norms, repeated
from antiphon.families.kit.random_checkpoint import has_drawn_weights
from antiphon.nn.safetensors_index import WeightsPart

COMPONENTS = {
    "processor": ("GlmImageProcessor",),
    "scheduler": ("FlowMatchEulerDiscreteScheduler",),
    "text_encoder": ("T5EncoderModel",),
    "tokenizer": ("ByT5Tokenizer",),
    "transformer": ("GlmImageTransformer2DModel",),
    "vae": ("AutoencoderKL",),
    "vision_language_encoder": ("GlmImageForConditionalGeneration",),
}
OTHERS = r"model\.(visual|vqmodel)\..*"
"""Names of tensors that only images to be edited need."""


def read_config(path: Path) -> PriorConfig:
    """Read a checkpoint's configuration; raises ModelLoadError."""
    index = ModelIndex.read(path)
    index.check_all(COMPONENTS)
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
    return inspect_pipeline(path, _facts, is_drawn=has_drawn_weights(path))


def _facts(path: Path) -> dict[str, str | int]:
    config = read_config(path)
    return {
        "Task": "images from text",
        "Sizes": f"multiples of {CODE_PIXELS} pixels",
        "Codes": config.num_codes,
    }


def prior_part(path: Path, config: PriorConfig) -> WeightsPart:
    layout = prior_layout(config)
    return WeightsPart(directory=path / PRIOR_DIRECTORY, layout=layout, others=OTHERS)


def prior_layout(config: PriorConfig) -> Layout:
    """Return the layout of the prior's files, without `OTHERS`."""
    sizes, name = config.transformer, "model.language_model"
    width = sizes.hidden_size
    layout: Layout = {
        "lm_head.weight": (config.head_size, width),
        f"{name}.embed_tokens.weight": (config.vocab_size, width),
        f"{name}.norm.weight": (width,),
    }
    layer = attention(sizes, "qkv" if config.has_biases else "") | layer_norms(sizes)
    layer |= {f"post_{part}_layernorm.weight": (width,) for part in ("self_attn", "mlp")}
    layer["mlp.gate_up_proj.weight"] = (2 * sizes.intermediate_size, width)
    layer["mlp.down_proj.weight"] = (width, sizes.intermediate_size)
    return layout | repeated(f"{name}.layers", sizes.num_layers, layer)
