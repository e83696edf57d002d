"""Configurations of random checkpoints: a tiny one, and one of the published sizes."""

from typing import Any, Literal, TypeAlias

Size: TypeAlias = Literal["tiny", "7b"]
Json: TypeAlias = dict[str, Any]

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|sosp|>",
    "<|eosp|>",
    "<|empty|>",
    "<|Human|>",
    "<|SpeechLM|>",
    "<|sostm|>",
    "<|eostm|>",
    "<|eot|>",
)
"""Special tokens, whose ids follow the 256 bytes."""


def main_config(size: Size, dtype: str) -> Json:
    """Return the contents of config.json."""
    common: Json = {
        "architectures": ["MiMoAudioModel"],
        "model_type": "qwen2",
        "dtype": dtype,
        "attention_bias": True,
        "attention_dropout": 0.0,
        "audio_channels": 8,
        "bos_token_id": None,
        "delay_pattern": "0-1-2-3-4-5-6-7",
        "eos_token_id": None,
        "group_size": 4,
        "hidden_act": "silu",
        "input_full_attention": True,
        "local_attn_dropout": 0.1,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 640000,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
    }
    if size == "tiny":
        return common | {
            "head_dim": 16,
            "hidden_size": 64,
            "input_local_dim": 32,
            "input_local_layers": 2,
            "intermediate_size": 96,
            "local_attn_heads": 4,
            "local_dim": 64,
            "local_ffn_dim": 64,
            "local_layers": 2,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 2,
            "speech_vocab_size": "33-33-9-9-9-9-9-9",
            "speech_zeroemb_idx": "32-32-8-8-8-8-8-8",
            "vocab_size": 272,
        }
    return common | {
        "head_dim": 128,
        "hidden_size": 4096,
        "input_local_dim": 1024,
        "input_local_layers": 6,
        "intermediate_size": 11008,
        "local_attn_heads": 64,
        "local_dim": 1024,
        "local_ffn_dim": 4096,
        "local_layers": 16,
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "speech_vocab_size": "1025-1025-129-129-129-129-129-129",
        "speech_zeroemb_idx": "1024-1024-128-128-128-128-128-128",
        "vocab_size": 151680,
    }


_AUDIO: Json = {
    "model_type": "mimo_audio_tokenizer",
    "activation_function": "gelu",
    "avg_pooler": 2,
    "decoder_attn_window_size": [-1, -1],
    "decoder_causal": True,
    "decoder_kernel_size": 3,
    "decoder_stride_size": 2,
    "encoder_attn_window_size": [-1, -1],
    "encoder_causal": False,
    "fmax": None,
    "fmin": 0,
    "hop_length": 240,
    "kernel_size": 3,
    "ln_type": "LayerNorm",
    "max_audio_seconds": 1800,
    "nfft": 960,
    "position_embedding_type": "rope",
    "rope_theta": 10000,
    "rope_type": "default",
    "sampling_rate": 24000,
    "scale_embedding": False,
    "stride_size": 2,
    "threshold_ema_dead_code": 2,
    "vocoder_padding": "same",
    "window_size": 960,
}


def tokenizer_config(size: Size) -> Json:
    """Return the contents of the audio tokenizer's config.json."""
    if size == "tiny":
        return _AUDIO | {
            "codebook_size": [32, 32, 8, 8, 8, 8, 8, 8, 8, 8],
            "d_model": 32,
            "decoder_attention_heads": 2,
            "decoder_ffn_dim": 48,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 48,
            "encoder_layers": 3,
            "encoder_skip_layer_id": 2,
            "n_mels": 16,
            "num_quantizers": 10,
            "vocoder_attention_heads": 2,
            "vocoder_attn_window_size": [6, 3],
            "vocoder_dim": 24,
            "vocoder_intermediate_dim": 32,
            "vocoder_num_layers": 2,
        }
    return _AUDIO | {
        "codebook_size": [1024, 1024, *[128] * 18],
        "d_model": 1280,
        "decoder_attention_heads": 20,
        "decoder_ffn_dim": 5120,
        "decoder_layers": 32,
        "encoder_attention_heads": 20,
        "encoder_ffn_dim": 5120,
        "encoder_layers": 32,
        "encoder_skip_layer_id": 3,
        "n_mels": 128,
        "num_quantizers": 20,
        "vocoder_attention_heads": 16,
        "vocoder_attn_window_size": [40, 10],
        "vocoder_dim": 256,
        "vocoder_intermediate_dim": 1024,
        "vocoder_num_layers": 16,
    }
