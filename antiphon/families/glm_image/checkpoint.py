"""Configuration and tensor layout of a GLM-Image checkpoint; read without torch."""

from pathlib import Path

from antiphon.contracts.inspection import Inspection
from antiphon.diffusion.inspection import inspect_pipeline
from antiphon.diffusion.model_index import ModelIndex
from antiphon.families.glm_image.config import CODE_PIXELS, LATENT_PIXELS, PriorConfig, load_config
from antiphon.families.kit.random_checkpoint import has_drawn_weights
from antiphon.nn.safetensors_index import Shape

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
    """Read a checkpoint's configuration.

    Raises:
        ModelLoadError: A file is missing or has unsupported content.
    """
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


def prior_layout(config: PriorConfig) -> dict[str, Shape]:
    """Return the shapes of the tensors in the prior's files, without `OTHERS`."""
    width, name = config.transformer.hidden_size, "model.language_model"
    layout: dict[str, Shape] = {
        "lm_head.weight": (config.head_size, width),
        f"{name}.embed_tokens.weight": (config.vocab_size, width),
        f"{name}.norm.weight": (width,),
    }
    layer = _layer(config)
    for index in range(config.transformer.num_layers):
        layout |= {f"{name}.layers.{index}.{part}": shape for part, shape in layer.items()}
    return layout


def _layer(config: PriorConfig) -> dict[str, Shape]:
    sizes = config.transformer
    width, inner = sizes.hidden_size, sizes.intermediate_size
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    layer: dict[str, Shape] = {
        "self_attn.o_proj.weight": (width, queries),
        "mlp.gate_up_proj.weight": (2 * inner, width),
        "mlp.down_proj.weight": (width, inner),
        "input_layernorm.weight": (width,),
        "post_self_attn_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
        "post_mlp_layernorm.weight": (width,),
    }
    for part, size in (("q", queries), ("k", keys), ("v", keys)):
        layer[f"self_attn.{part}_proj.weight"] = (size, width)
        if config.has_biases:
            layer[f"self_attn.{part}_proj.bias"] = (size,)
    return layer
