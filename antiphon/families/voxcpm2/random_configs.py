"""Configurations of random checkpoints: a tiny one, and one of the published size."""

import math
from typing import Any, Literal, TypeAlias

Size: TypeAlias = Literal["tiny", "2b"]
Json: TypeAlias = dict[str, Any]

_ASCII = [chr(code) for code in range(0x21, 0x7F)]
_CHINESE = ("你", "好")
_SPECIALS = {"<unk>": 0, "<s>": 1, "</s>": 2}
_AUDIO = ("<|audio_start|>", "<|audio_end|>", "<|audio_prompt_start|>", "<|audio_prompt_end|>")
_FIRST_AUDIO, _FIRST_BYTE = 101, 105
MERGED = ("你", "好")


def vocabulary() -> dict[str, int]:
    """Return a vocabulary for any text, with the audio tokens at the ids that the model expects."""
    letters = {name: 3 + index for index, name in enumerate([*_ASCII, "\u2581", *_CHINESE])}
    audio = {name: _FIRST_AUDIO + index for index, name in enumerate(_AUDIO)}
    number = {f"<0x{value:02X}>": _FIRST_BYTE + value for value in range(256)}
    return _SPECIALS | letters | audio | number | {"".join(MERGED): _FIRST_BYTE + 256}


def specials() -> tuple[str, ...]:
    """Return the special tokens."""
    return (*_SPECIALS, *_AUDIO)


def main_config(size: Size, dtype: str) -> Json:
    """Return the contents of config.json."""
    is_tiny = size == "tiny"
    local = {
        "hidden_dim": 48 if is_tiny else 1024,
        "ffn_dim": 80 if is_tiny else 4096,
        "num_heads": 4 if is_tiny else 16,
        "num_layers": 2 if is_tiny else 12,
        "kv_channels": 16 if is_tiny else 128,
    }
    flow = {
        "sigma_min": 1e-6,
        "solver": "euler",
        "t_scheduler": "log-norm",
        "inference_cfg_rate": 2.0,
    }
    return {
        "architecture": "voxcpm2",
        "lm_config": _language_model(is_tiny=is_tiny),
        "patch_size": 4,
        "feat_dim": 8 if is_tiny else 64,
        "residual_lm_num_layers": 1 if is_tiny else 8,
        "residual_lm_no_rope": True,
        "scalar_quantization_latent_dim": 24 if is_tiny else 512,
        "scalar_quantization_scale": 9,
        "encoder_config": local,
        "dit_config": local | {"dit_mean_mode": False, "cfm_config": flow},
        "audio_vae_config": _vae(is_tiny=is_tiny),
        "max_length": 8192,
        "device": "cuda",
        "dtype": dtype,
    }


def _language_model(*, is_tiny: bool) -> Json:
    head_dim = 16 if is_tiny else 128
    # Factors near those of MiniCPM4, which stretch long wavelengths most.
    factors = [round(1.0 + 0.8 * math.sqrt(2 * k / head_dim), 6) for k in range(head_dim // 2)]
    return {
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_size": 64 if is_tiny else 2048,
        "intermediate_size": 96 if is_tiny else 6144,
        "max_position_embeddings": 32768,
        "num_attention_heads": 4 if is_tiny else 16,
        "num_hidden_layers": 2 if is_tiny else 28,
        "num_key_value_heads": 2,
        "kv_channels": head_dim,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "type": "longrope",
            "long_factor": factors,
            "short_factor": factors,
            "original_max_position_embeddings": 8192 if is_tiny else 32768,
        },
        "vocab_size": 384 if is_tiny else 73448,
        "use_mup": is_tiny,
        "scale_emb": 12.0,
        "dim_model_base": 256,
        "scale_depth": 1.4,
    }


def _vae(*, is_tiny: bool) -> Json:
    return {
        "encoder_dim": 4 if is_tiny else 128,
        "encoder_rates": [4, 5, 8] if is_tiny else [2, 5, 8, 8],
        "latent_dim": 8 if is_tiny else 64,
        "decoder_dim": 32 if is_tiny else 2048,
        "decoder_rates": [8, 6, 5, 2] if is_tiny else [8, 6, 5, 2, 2, 2],
        "depthwise": True,
        "sample_rate": 16000,
        "out_sample_rate": 48000,
        "use_noise_block": False,
        "sr_bin_boundaries": [20000, 30000, 40000],
        "cond_type": "scale_bias",
        "cond_dim": 128,
        "cond_out_layer": False,
    }
