"""Configurations of random checkpoints: tiny ones, and some of published sizes."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from antiphon.families.fish_speech.codec_schema import CodecSizes
from antiphon.families.fish_speech.config import RESIDUAL_CODES, Layout

Size: TypeAlias = Literal["tiny", "s2-pro", "s1-mini"]
Json: TypeAlias = dict[str, Any]

NUM_CODEBOOKS = 10
_SEMANTIC_CODES: Mapping[str, int] = {"tiny": 160}
_PUBLISHED_SEMANTIC_CODES = 4096
_PUBLISHED_VOCABULARY = 155_776

_TINY: Json = {
    "dim": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_local_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
}
_S2_PRO: Json = {
    "dim": 2560,
    "n_layer": 36,
    "n_head": 32,
    "n_local_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9728,
}
_S1_MINI: Json = {
    "dim": 1024,
    "n_layer": 28,
    "n_head": 16,
    "n_local_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
}
_TINY_FAST = {**_TINY, "dim": 48, "n_head": 3, "n_local_heads": 3}
_S1_MINI_FAST = {**_S1_MINI, "n_layer": 4, "head_dim": 64}
_COMMON: Json = {
    "rope_base": 1_000_000,
    "norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "attention_qkv_bias": False,
    "attention_o_bias": False,
    "attention_qk_norm": True,
}

CODEC: Mapping[str, CodecSizes] = {
    "tiny": CodecSizes(
        encoder_width=8,
        strides=(2, 4, 8, 8),
        encoder_layers=(0, 0, 0, 1),
        latent_width=64,
        frame_layers=2,
        feed_forward_width=96,
        decoder_width=64,
        rates=(8, 8, 4, 2),
        factors=(2, 2),
        codebook_dim=8,
        semantic_codes=160,
        residual_codes=160,
        num_residual=NUM_CODEBOOKS - 1,
    ),
    "published": CodecSizes(
        encoder_width=64,
        strides=(2, 4, 8, 8),
        encoder_layers=(0, 0, 0, 4),
        latent_width=1024,
        frame_layers=8,
        feed_forward_width=3072,
        decoder_width=1536,
        rates=(8, 8, 4, 2),
        factors=(2, 2),
        codebook_dim=8,
        semantic_codes=_PUBLISHED_SEMANTIC_CODES,
        residual_codes=RESIDUAL_CODES,
        num_residual=NUM_CODEBOOKS - 1,
    ),
}


def codec_sizes(size: Size) -> CodecSizes:
    return CODEC["tiny" if size == "tiny" else "published"]


def num_semantic(size: Size) -> int:
    """Return the number of semantic codes."""
    return _SEMANTIC_CODES.get(size, _PUBLISHED_SEMANTIC_CODES)


def main_config(size: Size, layout: Layout, vocab_size: int, dtype: str) -> Json:
    """Return config.json; ``vocab_size`` is that of the tokenizer."""
    if size != "tiny":
        vocab_size = max(vocab_size, _PUBLISHED_VOCABULARY)
    return (_s2 if layout is Layout.S2 else _s1)(size, vocab_size, dtype)


def _s2(size: Size, vocab_size: int, dtype: str) -> Json:
    slow = _TINY if size == "tiny" else _S2_PRO
    return {
        "architectures": ["DualARTransformer"],
        "model_type": Layout.S2.value,
        "dtype": dtype,
        "text_config": {**slow, **_COMMON, "vocab_size": vocab_size, "max_seq_len": 32_768},
        "audio_decoder_config": {
            **slow,
            **_COMMON,
            "n_layer": 1 if size == "tiny" else 4,
            "attention_qk_norm": False,
            "text_dim": slow["dim"],
            "vocab_size": num_semantic(size),
            "num_codebooks": NUM_CODEBOOKS,
            "max_seq_len": NUM_CODEBOOKS + 1,
        },
    }


def _s1(size: Size, vocab_size: int, dtype: str) -> Json:
    slow, fast = (_TINY, _TINY_FAST) if size == "tiny" else (_S1_MINI, _S1_MINI_FAST)
    return {
        "model_type": Layout.S1.value,
        **slow,
        **_COMMON,
        "vocab_size": vocab_size,
        "max_seq_len": 8192,
        "codebook_size": num_semantic(size),
        "num_codebooks": NUM_CODEBOOKS,
        "n_fast_layer": fast["n_layer"],
        "fast_attention_qk_norm": False,
        **{f"fast_{key}": value for key, value in fast.items() if key != "n_layer"},
        "scale_codebook_embeddings": False,
        "norm_fastlayer_input": False,
        "dtype": dtype,
    }
