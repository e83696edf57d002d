"""Reading of a checkpoint's JSON files into `Qwen3TTSConfig`.

Sizes that all published files state are required; defaults of the official classes apply to the
others. Unsupported architectures are refused.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from antiphon.contracts.config_file import ConfigSection
from antiphon.families.qwen3_tts.config import (
    CODEC_DIRECTORY,
    DOWNSAMPLE_STRIDE,
    CheckpointTask,
    CodecConfig,
    CodecDecoderConfig,
    CodecEncoderConfig,
    CodecTokens,
    GenerationDefaults,
    PredictorConfig,
    Qwen3TTSConfig,
    TalkerConfig,
    TextTokens,
)
from antiphon.nn.layer_configs import TRANSFORMER_KEYS, EcapaConfig, TransformerConfig

# Keys of fields with a different name here.
_CODEC_TOKENS = {field.name: f"codec_{field.name}_id" for field in fields(CodecTokens)} | {
    "eos": "codec_eos_token_id"
}
_TEXT_TOKENS = {field.name: f"{field.name}_token_id" for field in fields(TextTokens)}
_ECAPA = {field.name: f"enc_{field.name}" for field in fields(EcapaConfig)} | {
    "mel_dim": "mel_dim",
    "embedding_size": "enc_dim",
    "sample_rate_hz": "sample_rate",
}
_GENERATION = {
    "predictor_do_sample": "subtalker_dosample",
    **{f"predictor_{name}": f"subtalker_{name}" for name in ("temperature", "top_k", "top_p")},
}


def load_config(path: Path) -> Qwen3TTSConfig:
    """Read the configuration of a checkpoint's directory; raises ModelLoadError."""
    top = ConfigSection.read(path / "config.json", unpacks=True)
    top.expect("model_type", "qwen3_tts")
    top.expect("tokenizer_type", "qwen3_tts_tokenizer_12hz")
    top.expect("tts_model_type", *(task.value for task in CheckpointTask))
    task = CheckpointTask(top.text("tts_model_type"))
    section = top.section("talker_config")
    talker = _talker(section)
    codec = _codec(ConfigSection.read(path / CODEC_DIRECTORY / "config.json"))
    if talker.num_groups != codec.num_quantizers:
        raise section.error("num_code_groups", f"must be {codec.num_quantizers}, as in the codec")
    if task is CheckpointTask.BASE and codec.encoder is None:
        raise top.error("tts_model_type", "is base, and the codec's config has no encoder_config")
    languages = section.ids("codec_language_id")
    speakers = section.ids("spk_id", {})
    return Qwen3TTSConfig(
        model_size=top.text("tts_model_size"),
        task=task,
        talker=talker,
        predictor=_predictor(section.section("code_predictor_config"), talker, codec),
        speaker_encoder=_speaker_encoder(top, talker) if task is CheckpointTask.BASE else None,
        codec=codec,
        tokens=top.build(TextTokens, _TEXT_TOKENS),
        generation=ConfigSection.read(path / "generation_config.json").build(
            GenerationDefaults, _GENERATION
        ),
        languages=languages,
        speakers=speakers,
        dialects=_dialects(section, languages, speakers),
        words_only=top.boolean("words_only", False),
    )


def _talker(section: ConfigSection) -> TalkerConfig:
    section.expect("tie_word_embeddings", False, default=False)
    return section.build(
        TalkerConfig,
        {"num_groups": "num_code_groups"},
        transformer=_qwen3_layers(section),
        tokens=section.build(CodecTokens, _CODEC_TOKENS),
    )


def _predictor(section: ConfigSection, talker: TalkerConfig, codec: CodecConfig) -> PredictorConfig:
    if section.integer("num_code_groups") != talker.num_groups:
        raise section.error("num_code_groups", f"must be {talker.num_groups}, as in the talker")
    if section.integer("vocab_size") != codec.decoder.codebook_size:
        raise section.error("vocab_size", f"must be {codec.decoder.codebook_size}, as in the codec")
    return section.build(
        PredictorConfig,
        {"num_groups": "num_code_groups"},
        transformer=_qwen3_layers(section),
        embedding_size=talker.transformer.hidden_size,
    )


def _qwen3_layers(section: ConfigSection) -> TransformerConfig:
    section.expect("use_sliding_window", False, default=False)
    return _transformer(section, "silu", {"norm_eps": 1e-6, "max_positions": 32768})


def _transformer(
    section: ConfigSection, activation: str, defaults: dict[str, Any], **given: Any
) -> TransformerConfig:
    section.expect("attention_bias", False, default=False)
    section.expect("hidden_act", activation, default=activation)
    # Sections of M-RoPE have no effect: a position is the same number on all axes, as in RoPE.
    rope = section.rope()
    rope.expect("rope_type", "default")
    theta = rope.number("rope_theta")
    return section.build(TransformerConfig, TRANSFORMER_KEYS, defaults, rope_theta=theta, **given)


def _codec_transformer(
    section: ConfigSection, activation: str, defaults: dict[str, Any], **given: Any
) -> TransformerConfig:
    """Read layers like the official codec classes; heads default to the hidden size's share."""
    width = section.integer("hidden_size", defaults["hidden_size"])
    num_heads = section.integer("num_attention_heads", defaults["num_heads"])
    common = {"head_dim": width // num_heads, "num_layers": 8, "max_positions": 8000}
    return _transformer(section, activation, common | defaults, **given)


def _speaker_encoder(top: ConfigSection, talker: TalkerConfig) -> EcapaConfig:
    section = top.section("speaker_encoder_config")
    if section.integer("enc_dim", 1024) != talker.transformer.hidden_size:
        raise section.error("enc_dim", f"must be {talker.transformer.hidden_size}, as the talker")
    section.expect("sample_rate", 24000, default=24000)
    return section.build(EcapaConfig, _ECAPA)


def _codec(top: ConfigSection) -> CodecConfig:
    top.expect("model_type", "qwen3_tts_tokenizer_12hz")
    decoder = _codec_decoder(top.section("decoder_config"))
    encoder = None
    if top.values.get("encoder_config", {}) is not None:
        encoder = _codec_encoder(top.section("encoder_config", {}), decoder.samples_per_frame)
    num_quantizers = top.integer("encoder_valid_num_quantizers", 16)
    for rate in ("decode_upsample_rate", "encode_downsample_rate"):
        top.expect(rate, decoder.samples_per_frame, default=1920)
    most = encoder.num_quantizers if encoder else num_quantizers
    if num_quantizers != decoder.num_quantizers or num_quantizers > most:
        raise top.error("encoder_valid_num_quantizers", "must be as in the decoder and encoder")
    rate_hz = top.integer("output_sample_rate", 24000)
    top.expect("input_sample_rate", rate_hz, default=24000)
    return CodecConfig(
        decoder=decoder, encoder=encoder, num_quantizers=num_quantizers, sample_rate_hz=rate_hz
    )


def _codec_decoder(section: ConfigSection) -> CodecDecoderConfig:
    section.expect("num_semantic_quantizers", 1, default=1)
    sizes = {"hidden_size": 1024, "intermediate_size": 3072, "num_heads": 16, "num_kv_heads": 16}
    transformer = _codec_transformer(
        section, "silu", sizes | {"norm_eps": 1e-5}, window=section.integer("sliding_window", 72)
    )
    return section.build(CodecDecoderConfig, transformer=transformer)


def _codec_encoder(section: ConfigSection, samples_per_frame: int) -> CodecEncoderConfig:
    section.expect("audio_channels", 1, default=1)
    section.expect("pad_mode", "constant", default="constant")
    section.expect("use_causal_conv", True, default=True)
    section.expect("use_conv_shortcut", False, default=False)
    codebook_dim = section.integer("codebook_dim", 256)
    section.expect("vector_quantization_hidden_dimension", codebook_dim, default=256)
    ratios = section.integers("upsampling_ratios", (8, 6, 5, 4))
    if math.prod(ratios) * DOWNSAMPLE_STRIDE != samples_per_frame:
        raise section.error(
            "upsampling_ratios", f"does not give {samples_per_frame} samples a frame"
        )
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_heads": 8, "num_kv_heads": 8}
    # The window is ignored, as in the official code, which attends to all earlier positions.
    transformer = _codec_transformer(
        section, "gelu", sizes, norm_eps=section.number("norm_eps", 1e-5)
    )
    return section.build(
        CodecEncoderConfig, {"ratios": "upsampling_ratios"}, transformer=transformer
    )


def _dialects(
    section: ConfigSection, languages: Mapping[str, int], speakers: Mapping[str, int]
) -> Mapping[str, str]:
    """Return the speakers whose ``spk_is_dialect`` is a language rather than false."""
    declared = section.section("spk_is_dialect", {})
    dialects = {}
    for speaker, dialect in declared.values.items():
        if dialect is False:
            continue
        if speaker.lower() not in speakers or dialect not in languages:
            raise declared.error(
                speaker, f"is {dialect!r}, but there is no such speaker or language"
            )
        dialects[speaker.lower()] = dialect
    return MappingProxyType(dialects)
