"""Configurations of checkpoints of random weights: those of the published ones, and tiny ones."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from antiphon.families.wan_video.config import IMAGE_PIPELINE

Json: TypeAlias = dict[str, Any]
Layout: TypeAlias = Literal["t2v-2.1", "t2v-2.2-a14b", "ti2v-2.2-5b", "i2v-2.2-a14b", "i2v-2.1"]
Size: TypeAlias = Literal["tiny", "1.3b", "5b", "14b"]

SIZES: dict[str, tuple[Size, ...]] = {
    "t2v-2.1": ("tiny", "1.3b", "14b"),
    "t2v-2.2-a14b": ("tiny", "14b"),
    "ti2v-2.2-5b": ("tiny", "5b"),
    "i2v-2.2-a14b": ("tiny", "14b"),
    "i2v-2.1": ("tiny", "14b"),
}
"""Sizes of each layout."""

_TRANSFORMERS: dict[Size, Json] = {
    "tiny": {
        "num_attention_heads": 2,
        "attention_head_dim": 24,
        "num_layers": 2,
        "ffn_dim": 64,
        "text_dim": 32,
        "freq_dim": 32,
        "rope_max_seq_len": 256,
    },
    "1.3b": {"num_attention_heads": 12, "num_layers": 30, "ffn_dim": 8960},
    "5b": {"num_attention_heads": 24, "num_layers": 30, "ffn_dim": 14336},
    "14b": {"num_attention_heads": 40, "num_layers": 40, "ffn_dim": 13824},
}
_TINY_TEXT_ENCODER: Json = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 1,
    "num_heads": 4,
}
_TEXT_ENCODER: Json = {
    "vocab_size": 256384,
    "d_model": 4096,
    "d_kv": 64,
    "d_ff": 10240,
    "num_layers": 24,
    "num_heads": 64,
}
_TINY_CLIP: Json = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
    "projection_dim": 16,
}
_CLIP: Json = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "image_size": 224,
    "patch_size": 14,
    "projection_dim": 1024,
    "hidden_act": "gelu",
}
_TINY_VAE: Json = {"base_dim": 8, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1}
_VAE_5B: Json = {
    "z_dim": 48,
    "is_residual": True,
    "in_channels": 12,
    "out_channels": 12,
    "patch_size": 2,
    "scale_factor_temporal": 4,
    "scale_factor_spatial": 16,
    # The published ones differ in each channel too; only their number matters here.
    "latents_mean": [channel / 48 - 0.5 for channel in range(48)],
    "latents_std": [1.0 + channel / 96 for channel in range(48)],
}


@dataclass(frozen=True, slots=True)
class WanRecipe:
    """A checkpoint to be made; configurations are arguments of the libraries' classes.

    Attributes:
        pipeline: diffusers' class.
        transformer: configuration of each expert.
        vae: configuration of the VAE.
        text_encoder: configuration of the text encoder.
        clip: configuration of the vision model; ``None``: there is none.
        settings: further keys of model_index.json.
        flow_shift: shift of the noise schedule.
    """

    pipeline: str
    transformer: Json
    vae: Json
    text_encoder: Json
    clip: Json | None
    settings: Json
    flow_shift: float


def recipe(layout: Layout, size: Size, vocabulary_size: int) -> WanRecipe:
    """Return the recipe of a checkpoint."""
    is_tiny, is_5b, is_i2v = size == "tiny", layout == "ti2v-2.2-5b", layout.startswith("i2v")
    z_dim = 48 if is_5b else 16
    transformer = {
        **_TRANSFORMERS[size],
        "in_channels": 2 * z_dim + 4 if is_i2v else z_dim,
        "out_channels": z_dim,
    }
    clip = None
    if layout == "i2v-2.1":
        clip = _TINY_CLIP if is_tiny else _CLIP
        hidden = transformer["num_attention_heads"] * transformer.get("attention_head_dim", 128)
        transformer |= {"image_dim": clip["hidden_size"], "added_kv_proj_dim": hidden}
    vae = _TINY_VAE if is_tiny else {}
    if is_5b:
        bases = {"decoder_base_dim": 8} if is_tiny else {"base_dim": 160, "decoder_base_dim": 256}
        vae = vae | bases | _VAE_5B
    settings: Json = {"expand_timesteps": is_5b}
    ratios = {"t2v-2.2-a14b": 0.875, "i2v-2.2-a14b": 0.9}
    return WanRecipe(
        pipeline=IMAGE_PIPELINE if is_i2v else "WanPipeline",
        transformer=transformer,
        vae=vae,
        text_encoder=_TINY_TEXT_ENCODER | {"vocab_size": vocabulary_size}
        if is_tiny
        else _TEXT_ENCODER,
        clip=clip,
        settings=settings | {"boundary_ratio": ratios.get(layout)},
        flow_shift=5.0 if is_5b else 3.0,
    )
