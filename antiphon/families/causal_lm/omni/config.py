"""Configuration of the talker and of token2wav in a Qwen2.5-Omni checkpoint."""

import math
from dataclasses import dataclass, fields
from pathlib import Path

from antiphon.contracts.config_file import ConfigSection
from antiphon.families.causal_lm.config import load_config, transformer_config
from antiphon.nn.layer_configs import EcapaConfig, TransformerConfig

SAMPLE_RATE_HZ = 24000
SPEAKERS = "spk_dict.pt"
_TALKER_THETA = 1e6  # base of the rotary embedding if no key states it
_TALKER, _TOKEN2WAV = "talker_config", "token2wav_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerTokens:
    """Special ids; defaults are the published ones.

    Attributes:
        text_end: thinker id after the last token of an answer.
        text_pad: thinker id of the padding after ``text_end``.
        codec_start: codec id before the first code; never generated.
        codec_pad: codec id of padding, which also ends speech.
        codec_mask: codec id that replaces the prompt in the repetition penalty.
    """

    text_end: int = 151861
    text_pad: int = 151859
    codec_start: int = 8293
    codec_end: int = 8294
    codec_pad: int = 8292
    codec_mask: int = 8296


@dataclass(frozen=True, slots=True, kw_only=True)
class OmniTalkerConfig:
    """Configuration of the talker, which generates codes.

    Attributes:
        vocab_size: codes and special ids.
        embedding_size: width of the thinker and of the code embedding.
    """

    transformer: TransformerConfig
    vocab_size: int
    embedding_size: int
    tokens: TalkerTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConfig:
    """Configuration of the flow matching transformer, which generates mel spectrograms.

    Attributes:
        ff_mult: width of the feed-forward layers as a multiple of ``hidden_size``.
        emb_dim: width of the code embedding.
        block_size: mel frames per attention block.
        look_ahead_layers: indices of layers that also attend to the next block.
        look_backward_layers: indices of layers that also attend to the previous block.
        repeats: mel frames per code.
        num_embeds: rows of the code embedding minus one.
        enc_emb_dim: size of a speaker vector.
    """

    hidden_size: int = 1024
    num_hidden_layers: int = 22
    num_attention_heads: int = 16
    head_dim: int = 64
    ff_mult: int = 2
    emb_dim: int = 512
    block_size: int = 24
    look_ahead_layers: tuple[int, ...] = (10,)
    look_backward_layers: tuple[int, ...] = (0, 20)
    repeats: int = 2
    num_embeds: int = 8193
    mel_dim: int = 80
    enc_emb_dim: int = 192
    rope_theta: float = 10000.0
    ecapa: EcapaConfig

    @property
    def block_codes(self) -> int:
        return self.block_size // self.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class BigVGANConfig:
    """Configuration of the BigVGAN vocoder.

    Attributes:
        kernel_sizes: kernel sizes of the blocks after each upsampling.
        dilations: dilations of the convolutions in each such block.
        rates: upsampling factor of each layer.
        up_kernel_sizes: kernel size of each upsampling layer.
    """

    mel_dim: int = 80
    initial_channels: int = 1536
    kernel_sizes: tuple[int, ...] = (3, 7, 11)
    dilations: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    rates: tuple[int, ...] = (5, 3, 2, 2, 2, 2)
    up_kernel_sizes: tuple[int, ...] = (11, 7, 4, 4, 4, 4)

    @property
    def hop(self) -> int:
        """Samples per mel frame."""
        return math.prod(self.rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class OmniConfig:
    """Configuration of the speaking parts of a checkpoint.

    Attributes:
        thinker: prefix of the thinker's tensors.
    """

    thinker: str
    thinker_vocab: int
    talker: OmniTalkerConfig
    flow: FlowConfig
    vocoder: BigVGANConfig

    @property
    def samples_per_code(self) -> int:
        return self.flow.repeats * self.vocoder.hop


def has_voice(path: Path) -> bool:
    """Return whether a checkpoint holds an enabled talker and its voices; raises ModelLoadError."""
    top = ConfigSection.read(path / "config.json", unpacks=True)
    parts = all(isinstance(top.values.get(key), dict) for key in (_TALKER, _TOKEN2WAV))
    return parts and top.boolean("enable_audio_output", True) and (path / SPEAKERS).is_file()


def load_omni_config(path: Path) -> OmniConfig:
    """Read config.json of a checkpoint of which `has_voice` is true; raises ModelLoadError."""
    top = ConfigSection.read(path / "config.json", unpacks=True)
    thinker = load_config(path)
    token2wav = top.section(_TOKEN2WAV)
    config = OmniConfig(
        thinker=thinker.prefix,
        thinker_vocab=thinker.vocab_size,
        talker=_talker(top.section(_TALKER)),
        flow=_flow(token2wav.section("dit_config", {})),
        vocoder=_vocoder(token2wav.section("bigvgan_config", {})),
    )
    tokens = config.talker.tokens
    if max(tokens.text_end, tokens.text_pad) >= thinker.vocab_size:
        message = f"and 'tts_text_pad_token_id' must be ids of the thinker's {thinker.vocab_size}"
        raise top.section(_TALKER).error("tts_text_end_token_id", message)
    width = thinker.transformer.hidden_size
    if config.talker.embedding_size != width:
        raise top.section(_TALKER).error("embedding_size", f"must be the thinker's width, {width}")
    if config.vocoder.mel_dim != config.flow.mel_dim:
        raise token2wav.error("bigvgan_config.mel_dim", f"must be {config.flow.mel_dim}")
    return config


def _talker(section: ConfigSection) -> OmniTalkerConfig:
    tokens = section.build(
        TalkerTokens,
        {each.name: f"tts_{each.name}_token_id" for each in fields(TalkerTokens)},
    )
    section.expect("use_sliding_window", False, default=False)
    vocab_size = section.integer("vocab_size", 8448)
    codes = (tokens.codec_start, tokens.codec_end, tokens.codec_pad, tokens.codec_mask)
    if max(codes) >= vocab_size:
        raise section.error("vocab_size", f"must be above {max(codes)}, an id of its own")
    return OmniTalkerConfig(
        transformer=transformer_config(section, _TALKER_THETA),
        vocab_size=vocab_size,
        embedding_size=section.integer("embedding_size", 3584),
        tokens=tokens,
    )


_ECAPA_KEYS = {each.name: f"enc_{each.name}" for each in fields(EcapaConfig)}
_ECAPA_KEYS |= {"embedding_size": "enc_dim", "mel_dim": "mel_dim"}


def _flow(section: ConfigSection) -> FlowConfig:
    rope = section.rope()
    rope.expect("rope_type", "default", default="default")
    ecapa = section.build(
        EcapaConfig,
        _ECAPA_KEYS,
        defaults={
            "mel_dim": 80,
            "embedding_size": 128,
            "channels": (256, 256, 256, 256, 768),
            "attention_channels": 64,
            "res2net_scale": 2,
            "se_channels": 64,
        },
    )
    config = section.build(FlowConfig, ecapa=ecapa, rope_theta=rope.number("rope_theta"))
    if config.block_size < 1 or config.repeats < 1 or config.block_size % config.repeats:
        raise section.error("block_size", f"must be a multiple of {config.repeats}, 'repeats'")
    return config


def _vocoder(section: ConfigSection) -> BigVGANConfig:
    usual = BigVGANConfig()
    dilations = section.values.get("resblock_dilation_sizes")
    return section.build(
        BigVGANConfig,
        keys={
            "initial_channels": "upsample_initial_channel",
            "kernel_sizes": "resblock_kernel_sizes",
            "rates": "upsample_rates",
            "up_kernel_sizes": "upsample_kernel_sizes",
        },
        dilations=usual.dilations if dilations is None else tuple(map(tuple, dilations)),
    )
