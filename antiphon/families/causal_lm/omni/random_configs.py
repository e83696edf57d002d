"""Voice configurations of random checkpoints: a tiny one and the published one."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def voice_configs(*, is_tiny: bool, thinker_width: int) -> Json:
    """Return the contents of config.json without the thinker's section."""
    talker = _TINY_TALKER if is_tiny else _TALKER
    token2wav = _TINY_TOKEN2WAV if is_tiny else {}
    return {
        "enable_audio_output": True,
        "talker_config": {
            "model_type": "qwen2_5_omni_talker",
            "embedding_size": thinker_width,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            **talker,
        },
        "token2wav_config": {
            "model_type": "qwen2_5_omni_token2wav",
            "dit_config": {"model_type": "qwen2_5_omni_dit", **token2wav.get("dit_config", {})},
            "bigvgan_config": {
                "model_type": "qwen2_5_omni_bigvgan",
                **token2wav.get("bigvgan_config", {}),
            },
        },
    }


def bos_tokens(*, is_tiny: bool) -> dict[str, int]:
    """Return the thinker id after which each voice begins."""
    return {"Chelsie": 261, "Ethan": 262} if is_tiny else {"Chelsie": 151857, "Ethan": 151858}


_TALKER: Json = {
    "hidden_size": 896,
    "intermediate_size": 18944,
    "num_hidden_layers": 24,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 8448,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "rope_scaling": {"mrope_section": [16, 24, 24], "rope_type": "default"},
}
_TINY_TALKER: Json = {
    "hidden_size": 40,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 52,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "rope_scaling": {"mrope_section": [2, 3, 3], "rope_type": "default"},
    "tts_text_start_token_id": 259,
    "tts_text_end_token_id": 260,
    "tts_text_pad_token_id": 263,
    "tts_codec_start_token_id": 45,
    "tts_codec_end_token_id": 46,
    "tts_codec_pad_token_id": 44,
    "tts_codec_mask_token_id": 48,
}
_TINY_TOKEN2WAV: Json = {
    "dit_config": {
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "head_dim": 16,
        "ff_mult": 2,
        "emb_dim": 12,
        "block_size": 8,
        "look_ahead_layers": [1],
        "look_backward_layers": [0, 2],
        "repeats": 2,
        "num_embeds": 40,
        "mel_dim": 8,
        "enc_emb_dim": 6,
        "enc_dim": 5,
        "enc_channels": [8, 8, 8, 8, 24],
        "enc_attention_channels": 4,
        "enc_res2net_scale": 2,
        "enc_se_channels": 4,
    },
    "bigvgan_config": {
        "mel_dim": 8,
        "upsample_initial_channel": 16,
        "resblock_kernel_sizes": [3, 5],
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5]],
        "upsample_rates": [5, 3],
        "upsample_kernel_sizes": [11, 7],
    },
}
