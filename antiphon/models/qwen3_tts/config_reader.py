"""Reads a checkpoint's JSON files into `Qwen3TTSConfig`.

Sizes that every published file states are required; what the official classes default has the same
default here. Keys that choose an architecture which is not implemented are refused.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from antiphon.models.config_file import ConfigSection
from antiphon.models.qwen3_tts.config import (
    CODEC_DIRECTORY,
    CodecConfig,
    CodecDecoderConfig,
    CodecEncoderConfig,
    CodecTokens,
    GenerationDefaults,
    PredictorConfig,
    Qwen3TTSConfig,
    TalkerConfig,
    Task,
    TextTokens,
)
from antiphon.nn.layer_configs import EcapaConfig, TransformerConfig

DOWNSAMPLE_STRIDE = 2  # Mimi fixes it; no file states it


def load_config(path: Path) -> Qwen3TTSConfig:
    """Read the configuration of a checkpoint's directory.

    Raises:
        ModelLoadError: a file or key is missing, has the wrong type, or asks for something that
            is not implemented; the message names file and key.
    """
    top = ConfigSection.read(path / "config.json")
    top.expect("model_type", "qwen3_tts")
    top.expect("tokenizer_type", "qwen3_tts_tokenizer_12hz")
    top.expect("tts_model_type", *(task.value for task in Task))
    task = Task(top.text("tts_model_type"))
    section = top.section("talker_config")
    talker = _talker(section)
    codec = _codec(ConfigSection.read(path / CODEC_DIRECTORY / "config.json"))
    if talker.num_groups != codec.num_quantizers:
        raise section.error("num_code_groups", f"must be {codec.num_quantizers}, as in the codec")
    languages = section.ids("codec_language_id")
    speakers = section.ids("spk_id", {})
    return Qwen3TTSConfig(
        model_size=top.text("tts_model_size"),
        task=task,
        talker=talker,
        predictor=_predictor(section.section("code_predictor_config"), talker, codec),
        speaker_encoder=_speaker_encoder(top, talker) if task is Task.BASE else None,
        codec=codec,
        tokens=_text_tokens(top),
        generation=_generation(ConfigSection.read(path / "generation_config.json")),
        languages=languages,
        speakers=speakers,
        dialects=_dialects(section, languages, speakers),
    )


def _text_tokens(top: ConfigSection) -> TextTokens:
    return TextTokens(
        im_start=top.integer("im_start_token_id", 151644),
        im_end=top.integer("im_end_token_id", 151645),
        tts_pad=top.integer("tts_pad_token_id", 151671),
        tts_bos=top.integer("tts_bos_token_id", 151672),
        tts_eos=top.integer("tts_eos_token_id", 151673),
    )


def _talker(section: ConfigSection) -> TalkerConfig:
    section.expect("tie_word_embeddings", False, default=False)
    return TalkerConfig(
        transformer=_qwen3_layers(section),
        tokens=CodecTokens(
            pad=section.integer("codec_pad_id"),
            bos=section.integer("codec_bos_id"),
            eos=section.integer("codec_eos_token_id"),
            think=section.integer("codec_think_id"),
            nothink=section.integer("codec_nothink_id"),
            think_bos=section.integer("codec_think_bos_id"),
            think_eos=section.integer("codec_think_eos_id"),
        ),
        vocab_size=section.integer("vocab_size"),
        num_groups=section.integer("num_code_groups"),
        text_vocab_size=section.integer("text_vocab_size"),
        text_hidden_size=section.integer("text_hidden_size"),
    )


def _predictor(section: ConfigSection, talker: TalkerConfig, codec: CodecConfig) -> PredictorConfig:
    if section.integer("num_code_groups") != talker.num_groups:
        raise section.error("num_code_groups", f"must be {talker.num_groups}, as in the talker")
    if section.integer("vocab_size") != codec.decoder.codebook_size:
        raise section.error("vocab_size", f"must be {codec.decoder.codebook_size}, as in the codec")
    return PredictorConfig(
        transformer=_qwen3_layers(section),
        vocab_size=section.integer("vocab_size"),
        num_groups=section.integer("num_code_groups"),
        embedding_size=talker.transformer.hidden_size,
    )


def _qwen3_layers(section: ConfigSection) -> TransformerConfig:
    section.expect("attention_bias", False, default=False)
    section.expect("hidden_act", "silu", default="silu")
    section.expect("use_sliding_window", False, default=False)
    return TransformerConfig(
        hidden_size=section.integer("hidden_size"),
        intermediate_size=section.integer("intermediate_size"),
        num_layers=section.integer("num_hidden_layers"),
        num_heads=section.integer("num_attention_heads"),
        num_kv_heads=section.integer("num_key_value_heads"),
        head_dim=section.integer("head_dim"),
        norm_eps=section.number("rms_norm_eps", 1e-6),
        rope_theta=_rope_theta(section),
        max_positions=section.integer("max_position_embeddings", 32768),
    )


def _rope_theta(section: ConfigSection) -> float:
    """Return the base of the rotary embedding, wherever the file's generation keeps it.

    The interleaved sections of M-RoPE have no effect: this model gives all three the same
    position, which makes it ordinary RoPE.
    """
    for name in ("rope_scaling", "rope_parameters"):
        section.section(name, {}).expect("rope_type", "default", default="default")
    moved = section.section("rope_parameters", {})
    return moved.number("rope_theta") if moved.values else section.number("rope_theta", 10000.0)


def _speaker_encoder(top: ConfigSection, talker: TalkerConfig) -> EcapaConfig:
    section = top.section("speaker_encoder_config")
    if section.integer("enc_dim", 1024) != talker.transformer.hidden_size:
        raise section.error("enc_dim", f"must be {talker.transformer.hidden_size}, as the talker")
    section.expect("sample_rate", 24000, default=24000)
    return EcapaConfig(
        mel_dim=section.integer("mel_dim", 128),
        embedding_size=section.integer("enc_dim", 1024),
        channels=section.integers("enc_channels", (512, 512, 512, 512, 1536)),
        kernel_sizes=section.integers("enc_kernel_sizes", (5, 3, 3, 3, 1)),
        dilations=section.integers("enc_dilations", (1, 2, 3, 4, 1)),
        attention_channels=section.integer("enc_attention_channels", 128),
        res2net_scale=section.integer("enc_res2net_scale", 8),
        se_channels=section.integer("enc_se_channels", 128),
        sample_rate_hz=section.integer("sample_rate", 24000),
    )


def _codec(top: ConfigSection) -> CodecConfig:
    top.expect("model_type", "qwen3_tts_tokenizer_12hz")
    decoder = _codec_decoder(top.section("decoder_config"))
    encoder = _codec_encoder(top.section("encoder_config", {}), decoder.samples_per_frame)
    num_quantizers = top.integer("encoder_valid_num_quantizers", 16)
    for rate in ("decode_upsample_rate", "encode_downsample_rate"):
        top.expect(rate, decoder.samples_per_frame, default=1920)
    if num_quantizers != decoder.num_quantizers or num_quantizers > encoder.num_quantizers:
        raise top.error("encoder_valid_num_quantizers", "must be as in the decoder and encoder")
    sample_rate_hz = top.integer("output_sample_rate", 24000)
    top.expect("input_sample_rate", sample_rate_hz, default=24000)
    return CodecConfig(
        decoder=decoder,
        encoder=encoder,
        num_quantizers=num_quantizers,
        sample_rate_hz=sample_rate_hz,
        samples_per_frame=decoder.samples_per_frame,
    )


def _codec_decoder(section: ConfigSection) -> CodecDecoderConfig:
    section.expect("attention_bias", False, default=False)
    section.expect("hidden_act", "silu", default="silu")
    section.expect("num_semantic_quantizers", 1, default=1)
    num_heads = section.integer("num_attention_heads", 16)
    hidden_size = section.integer("hidden_size", 1024)
    return CodecDecoderConfig(
        transformer=TransformerConfig(
            hidden_size=hidden_size,
            intermediate_size=section.integer("intermediate_size", 3072),
            num_layers=section.integer("num_hidden_layers", 8),
            num_heads=num_heads,
            num_kv_heads=section.integer("num_key_value_heads", 16),
            head_dim=section.integer("head_dim", hidden_size // num_heads),
            norm_eps=section.number("rms_norm_eps", 1e-5),
            rope_theta=_rope_theta(section),
            max_positions=section.integer("max_position_embeddings", 8000),
            window=section.integer("sliding_window", 72),
        ),
        codebook_size=section.integer("codebook_size", 2048),
        codebook_dim=section.integer("codebook_dim"),
        num_quantizers=section.integer("num_quantizers", 16),
        latent_dim=section.integer("latent_dim", 1024),
        decoder_dim=section.integer("decoder_dim", 1536),
        upsampling_ratios=section.integers("upsampling_ratios", (2, 2)),
        upsample_rates=section.integers("upsample_rates", (8, 5, 4, 3)),
    )


def _codec_encoder(section: ConfigSection, samples_per_frame: int) -> CodecEncoderConfig:
    section.expect("attention_bias", False, default=False)
    section.expect("audio_channels", 1, default=1)
    section.expect("hidden_act", "gelu", default="gelu")
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
    hidden_size = section.integer("hidden_size", 512)
    num_heads = section.integer("num_attention_heads", 8)
    return CodecEncoderConfig(
        transformer=TransformerConfig(
            hidden_size=hidden_size,
            intermediate_size=section.integer("intermediate_size", 2048),
            num_layers=section.integer("num_hidden_layers", 8),
            num_heads=num_heads,
            num_kv_heads=section.integer("num_key_value_heads", 8),
            head_dim=section.integer("head_dim", hidden_size // num_heads),
            norm_eps=section.number("norm_eps", 1e-5),
            rope_theta=_rope_theta(section),
            max_positions=section.integer("max_position_embeddings", 8000),
            # Left unread, as in the official code, which attends to all that came before.
            window=None,
        ),
        hidden_size=hidden_size,
        num_filters=section.integer("num_filters", 64),
        num_residual_layers=section.integer("num_residual_layers", 1),
        ratios=ratios,
        kernel_size=section.integer("kernel_size", 7),
        last_kernel_size=section.integer("last_kernel_size", 3),
        residual_kernel_size=section.integer("residual_kernel_size", 3),
        dilation_growth_rate=section.integer("dilation_growth_rate", 2),
        compress=section.integer("compress", 2),
        downsample_stride=DOWNSAMPLE_STRIDE,
        codebook_size=section.integer("codebook_size", 2048),
        codebook_dim=codebook_dim,
        num_quantizers=section.integer("num_quantizers", 32),
        num_semantic_quantizers=section.integer("num_semantic_quantizers", 1),
    )


def _generation(section: ConfigSection) -> GenerationDefaults:
    fallback = GenerationDefaults()
    return GenerationDefaults(
        do_sample=section.boolean("do_sample", fallback.do_sample),
        temperature=section.number("temperature", fallback.temperature),
        top_k=section.integer("top_k", fallback.top_k),
        top_p=section.number("top_p", fallback.top_p),
        repetition_penalty=section.number("repetition_penalty", fallback.repetition_penalty),
        predictor_do_sample=section.boolean("subtalker_dosample", fallback.predictor_do_sample),
        predictor_temperature=section.number(
            "subtalker_temperature", fallback.predictor_temperature
        ),
        predictor_top_k=section.integer("subtalker_top_k", fallback.predictor_top_k),
        predictor_top_p=section.number("subtalker_top_p", fallback.predictor_top_p),
        max_new_tokens=section.integer("max_new_tokens", fallback.max_new_tokens),
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
