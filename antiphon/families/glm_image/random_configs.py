"""Configurations of made-up checkpoints: a tiny one, and one of the published sizes."""

from typing import Any, Literal, TypeAlias

Size: TypeAlias = Literal["tiny", "16b"]
Json: TypeAlias = dict[str, Any]

_LATENT_CHANNELS = 16


def num_codes(size: Size) -> int:
    """Return the size of the codebook; the ids of the image's start and end follow."""
    return 64 if size == "tiny" else 16384


def num_image_ids(size: Size) -> int:
    """Return how many ids there are before those of text."""
    return 96 if size == "tiny" else 16512


def prior_config(size: Size, vocab_size: int, image_id: int, pad_id: int) -> Json:
    """Return the arguments of `transformers.GlmImageConfig`."""
    text: Json = {"vocab_size": vocab_size, "pad_token_id": pad_id}
    vision: Json = {}
    codebook: Json = {}
    sections, theta = [8, 12, 12], 10000.0
    if size == "tiny":
        sections = [1, 1, 2]
        text |= {
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 8192,
        }
        vision = {
            "depth": 1,
            "hidden_size": 32,
            "num_heads": 2,
            "intermediate_size": 64,
            "image_size": 128,
        }
        codebook = {"embed_dim": 16, "latent_channels": 32}
    start = num_codes(size)
    text |= {
        "vision_vocab_size": num_image_ids(size),
        "eos_token_id": start + 1,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": theta,
            "mrope_section": sections,
            "partial_rotary_factor": 0.5,
        },
    }
    return {
        "text_config": text,
        "vision_config": vision,
        "vq_config": codebook | {"num_embeddings": start},
        "image_token_id": image_id,
        "image_start_token_id": start,
        "image_end_token_id": start + 1,
    }


def generation_config(size: Size, pad_id: int) -> Json:
    """Return how the official class draws: random weights would stop early if they could."""
    start = num_codes(size)
    return {
        "do_sample": True,
        "temperature": 0.9,
        "top_p": 0.75,
        "top_k": 0,
        "eos_token_id": start + 1,
        "pad_token_id": pad_id,
        "suppress_tokens": [*range(start, num_image_ids(size))],
    }


def text_encoder_config(size: Size) -> Json:
    """Return the arguments of `transformers.T5Config`."""
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    if size == "16b":
        sizes = {"d_model": 1472, "d_kv": 64, "d_ff": 3584, "num_layers": 12, "num_heads": 6}
    return sizes | {
        "vocab_size": 384,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
    }


def transformer_config(size: Size) -> Json:
    """Return the arguments of `diffusers.GlmImageTransformer2DModel`."""
    if size == "16b":
        return {}
    return {
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "text_embed_dim": 32,
        "time_embed_dim": 32,
        "condition_dim": 16,
        "prior_vq_quantizer_codebook_size": num_codes(size),
    }


def vae_config(size: Size) -> Json:
    """Return the arguments of `diffusers.AutoencoderKL`."""
    channels, layers, groups = (
        ([8] * 4, 1, 4) if size == "tiny" else ([128, 512, 1024, 1024], 3, 32)
    )
    return {
        "latent_channels": _LATENT_CHANNELS,
        "block_out_channels": channels,
        "layers_per_block": layers,
        "norm_num_groups": groups,
        "sample_size": 1024,
        "down_block_types": ["DownEncoderBlock2D"] * 4,
        "up_block_types": ["UpDecoderBlock2D"] * 4,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
        "mid_block_add_attention": False,
        "latents_mean": [0.02 * index - 0.1 for index in range(_LATENT_CHANNELS)],
        "latents_std": [1.0 + 0.05 * index for index in range(_LATENT_CHANNELS)],
    }


def scheduler_config() -> Json:
    """Return the arguments of `diffusers.FlowMatchEulerDiscreteScheduler`."""
    return {
        "base_shift": 0.25,
        "max_shift": 0.75,
        "base_image_seq_len": 256,
        "use_dynamic_shifting": True,
        "time_shift_type": "linear",
    }


def image_processor_config(size: Size) -> Json:
    """Return the arguments of `transformers.GlmImageImageProcessor`."""
    longest = 128 if size == "tiny" else 2048
    return {
        "patch_size": 16,
        "temporal_patch_size": 1,
        "merge_size": 1,
        "min_pixels": 32 * 32,
        "max_pixels": longest * longest,
    }


def weights(size: Size) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of tensors that decide whether codes vary.

    Attention must influence the logits more than the last code alone, or one code would repeat for
    ever; the likeliest code must be clear.
    """
    width = 64 if size == "tiny" else 4096
    return {
        r"model\.language_model\.embed_tokens\.weight": (0.0, 0.3),
        r"model\.language_model\..*\.[qk]_proj\.bias": (0.0, 1.0),
        r"model\.language_model\..*\.[qk]_proj\.weight": (0.0, 2.0 / width**0.5),
        r"lm_head\.weight": (0.0, 3.0 / width**0.5),
    }
