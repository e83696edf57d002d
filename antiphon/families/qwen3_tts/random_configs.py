"""JSON files of a random checkpoint, with the keys and special ids of the published ones."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from antiphon.families.qwen3_tts.config import CheckpointTask

Size: TypeAlias = Literal["tiny", "tiny-0.6b", "0.6b", "1.7b"]
Json: TypeAlias = dict[str, Any]

LANGUAGES = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
}
DIALECTS = {"beijing_dialect": 2074, "sichuan_dialect": 2062}
SPEAKERS = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
SPEAKER_DIALECTS = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}


@dataclass(frozen=True, slots=True)
class TextVocabulary:
    """Rows of the text embedding, and the special tokens' ids."""

    num_rows: int
    special_ids: dict[str, int]
    assistant_id: int


@dataclass(frozen=True, slots=True)
class _Widths:
    """Widths of a size of the language model."""

    model_size: str
    text_hidden: int
    talker: Json
    predictor: Json
    mrope_section: tuple[int, int, int]
    speaker_encoder: Json


def _layers(
    hidden: int, intermediate: int, layers: int, heads: int, head_dim: int, num_shared: int = 2
) -> Json:
    """Return the sizes of a transformer; ``num_shared`` query heads share keys and values."""
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // num_shared,
        "head_dim": head_dim,
    }


_TINY_SPEAKER_ENCODER = {
    "enc_channels": [32, 32, 32, 32, 96],
    "enc_attention_channels": 16,
    "enc_res2net_scale": 4,
    "enc_se_channels": 16,
}
_TINY_TALKER = _layers(64, 160, 3, 4, 32)
_TINY_MROPE = (6, 5, 5)
_FULL_PREDICTOR = _layers(1024, 3072, 5, 16, 128)
_FULL_MROPE = (24, 20, 20)
_WIDTHS: dict[Size, _Widths] = {
    # In the 1.7B layout the predictor is narrower than the talker, which requires a projection.
    "tiny": _Widths(
        "1b7", 96, _TINY_TALKER, _layers(48, 96, 2, 4, 16), _TINY_MROPE, _TINY_SPEAKER_ENCODER
    ),
    "tiny-0.6b": _Widths(
        "0b6", 96, _TINY_TALKER, _layers(64, 96, 2, 4, 16), _TINY_MROPE, _TINY_SPEAKER_ENCODER
    ),
    "0.6b": _Widths(
        "0b6", 2048, _layers(1024, 3072, 28, 16, 128), _FULL_PREDICTOR, _FULL_MROPE, {}
    ),
    "1.7b": _Widths(
        "1b7", 2048, _layers(2048, 6144, 28, 16, 128), _FULL_PREDICTOR, _FULL_MROPE, {}
    ),
}


def is_tiny(size: Size) -> bool:
    return size.startswith("tiny")


def main_config(size: Size, task: CheckpointTask, vocabulary: TextVocabulary, dtype: str) -> Json:
    """Return config.json."""
    widths = _WIDTHS[size]
    ids = vocabulary.special_ids
    config = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": widths.model_size,
        "tts_model_type": task.value,
        "assistant_token_id": vocabulary.assistant_id,
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "talker_config": _talker_config(widths, task, vocabulary.num_rows),
        "dtype": dtype,
        # The official loader replaces the tokenizer's pattern for later versions.
        "transformers_version": "4.57.1",
    }
    if task is CheckpointTask.BASE:
        sizes = {"enc_dim": widths.talker["hidden_size"], "sample_rate": 24000}
        config["speaker_encoder_config"] = sizes | widths.speaker_encoder
    return config


def _talker_config(widths: _Widths, task: CheckpointTask, text_vocab_size: int) -> Json:
    common = {
        "num_code_groups": 16,
        "rope_theta": 1000000,
        "rms_norm_eps": 1e-06,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0,
        "initializer_range": 0.02,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": False,
    }
    built_in = task is CheckpointTask.CUSTOM_VOICE
    ids = {
        "codec_pad_id": 2148,
        "codec_bos_id": 2149,
        "codec_eos_token_id": 2150,
        "codec_think_id": 2154,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "codec_language_id": LANGUAGES | (DIALECTS if built_in else {}),
        "spk_id": SPEAKERS if built_in else {},
        "spk_is_dialect": {name: SPEAKER_DIALECTS.get(name, False) for name in SPEAKERS}
        if built_in
        else {},
    }
    rope_scaling = {
        "interleaved": True,
        "mrope_section": list(widths.mrope_section),
        "rope_type": "default",
        "type": "default",
    }
    predictor = {"vocab_size": 2048, "max_position_embeddings": 65536, "rope_scaling": None}
    return (
        widths.talker
        | common
        | ids
        | {
            "model_type": "qwen3_tts_talker",
            "vocab_size": 3072,
            "text_vocab_size": text_vocab_size,
            "text_hidden_size": widths.text_hidden,
            "max_position_embeddings": 32768,
            "position_id_per_seconds": 13,
            "rope_scaling": rope_scaling,
            "code_predictor_config": widths.predictor
            | common
            | predictor
            | {"model_type": "qwen3_tts_talker_code_predictor"},
        }
    )


def codec_config(size: Size) -> Json:
    """Return speech_tokenizer/config.json."""
    decoder: Json = {
        "codebook_size": 2048,
        "num_quantizers": 16,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000,
        "hidden_act": "silu",
        "attention_bias": False,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "sliding_window": 72,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
    }
    encoder: Json = {"_frame_rate": 12.5, "model_type": "mimi", "sampling_rate": 24000}
    if is_tiny(size):
        decoder |= _TINY_DECODER
        encoder |= _TINY_ENCODER
    else:
        decoder |= _FULL_DECODER
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": 16,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "encode_downsample_rate": 1920,
        "decode_upsample_rate": 1920,
        "decoder_config": decoder,
        "encoder_config": encoder,
        "dtype": "float32",
        "transformers_version": "4.57.1",
    }


_TINY_DECODER: Json = {
    "latent_dim": 64,
    "codebook_dim": 64,
    "decoder_dim": 64,
    **_layers(48, 96, 3, 4, 16, num_shared=1),
}
_FULL_DECODER: Json = {
    "latent_dim": 1024,
    "codebook_dim": 512,
    "decoder_dim": 1536,
    **_layers(512, 1024, 8, 16, 64, num_shared=1),
    "semantic_codebook_size": 4096,
    "vector_quantization_hidden_dimension": 512,
}
_TINY_ENCODER: Json = {
    **_layers(64, 128, 2, 4, 16, num_shared=1),
    "num_filters": 8,
    "codebook_dim": 16,
    "vector_quantization_hidden_dimension": 16,
    "upsample_groups": 64,
}

GENERATION: Json = {
    "do_sample": True,
    "temperature": 0.9,
    "top_k": 50,
    "top_p": 1.0,
    "repetition_penalty": 1.05,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_k": 50,
    "subtalker_top_p": 1.0,
    "max_new_tokens": 8192,
}
PROCESSOR: Json = {
    "padding_side": "left",
    "padding_value": 0.0,
    "processor_class": "Qwen3TTSProcessor",
    "return_attention_mask": True,
}
CODEC_PROCESSOR: Json = {
    "chunk_length_s": None,
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "overlap": None,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "sampling_rate": 24000,
}
