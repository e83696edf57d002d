"""What a checkpoint of Qwen2.5-Omni says of its talker and of what makes audio of codes."""

from dataclasses import dataclass
from pathlib import Path

from antiphon.contracts.config_file import ConfigSection
from antiphon.families.causal_lm.config import load_config, transformer_config
from antiphon.nn.layer_configs import EcapaConfig, TransformerConfig

SAMPLE_RATE_HZ = 24000
SPEAKERS = "spk_dict.pt"
_TALKER_THETA = 1e6  # base of the rotary embedding where no key states it
_TALKER, _TOKEN2WAV = "talker_config", "token2wav_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerTokens:
    """Ids with a meaning, defaults as published.

    Attributes:
        text_end: in the thinker's vocabulary, after the last token of an answer.
        text_pad: likewise, after that.
        codec_start: among the codes, before the first one; never said.
        codec_end: ends speech.
        codec_pad: likewise.
        codec_mask: stands for the prompt in the repetition penalty.
    """

    text_end: int = 151861
    text_pad: int = 151859
    codec_start: int = 8293
    codec_end: int = 8294
    codec_pad: int = 8292
    codec_mask: int = 8296


@dataclass(frozen=True, slots=True, kw_only=True)
class OmniTalkerConfig:
    """The model that says codes.

    Attributes:
        vocab_size: codes, and ids with a meaning.
        embedding_size: width of the thinker, and of the codes' embedding.
    """

    transformer: TransformerConfig
    vocab_size: int
    embedding_size: int
    tokens: TalkerTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConfig:
    """The transformer that makes a mel spectrogram by flow matching.

    Attributes:
        ff_mult: width of the feed-forward layers, as a multiple.
        emb_dim: width of the codes' embedding.
        block_size: frames of the spectrogram that see each other.
        look_ahead_layers: those that see the next block too.
        look_backward_layers: those that see the block before.
        repeats: frames of the spectrogram for each code.
        num_embeds: codes that have an embedding, less one.
        enc_emb_dim: numbers of a voice's vector.
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
        """Codes that a block of the spectrogram is made of."""
        return self.block_size // self.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class BigVGANConfig:
    """The vocoder, a BigVGAN.

    Attributes:
        kernel_sizes: of the blocks after each upsampling.
        dilations: of the convolutions of each such block.
        rates: by which each layer upsamples.
        up_kernel_sizes: of these layers.
    """

    mel_dim: int = 80
    initial_channels: int = 1536
    kernel_sizes: tuple[int, ...] = (3, 7, 11)
    dilations: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    rates: tuple[int, ...] = (5, 3, 2, 2, 2, 2)
    up_kernel_sizes: tuple[int, ...] = (11, 7, 4, 4, 4, 4)

    @property
    def hop(self) -> int:
        """Samples of a frame of the spectrogram."""
        hop = 1
        for rate in self.rates:
            hop *= rate
        return hop


@dataclass(frozen=True, slots=True, kw_only=True)
class OmniConfig:
    """All that speaks in a checkpoint.

    Attributes:
        thinker: what names of the thinker's tensors begin with.
        thinker_vocab: ids of the thinker.
    """

    thinker: str
    thinker_vocab: int
    talker: OmniTalkerConfig
    flow: FlowConfig
    vocoder: BigVGANConfig

    @property
    def samples_per_code(self) -> int:
        """Samples that a code becomes."""
        return self.flow.repeats * self.vocoder.hop


def has_voice(path: Path) -> bool:
    """Whether a checkpoint's directory holds a talker that is to be used, and its voices.

    Raises:
        ModelLoadError: config.json cannot be read.
    """
    top = ConfigSection.read(path / "config.json")
    parts = all(isinstance(top.values.get(key), dict) for key in (_TALKER, _TOKEN2WAV))
    return parts and top.boolean("enable_audio_output", True) and (path / SPEAKERS).is_file()


def load_omni_config(path: Path) -> OmniConfig:
    """Read config.json of a checkpoint of which `has_voice` is true.

    Raises:
        ModelLoadError: a key is missing, has the wrong type, or asks for something that is not
            implemented; the message names file and key.
    """
    top = ConfigSection.read(path / "config.json")
    thinker = load_config(path)
    token2wav = top.section(_TOKEN2WAV)
    config = OmniConfig(
        thinker=thinker.prefix,
        thinker_vocab=thinker.vocab_size,
        talker=_talker(top.section(_TALKER)),
        flow=_flow(token2wav.section("dit_config", {})),
        vocoder=_vocoder(token2wav.section("bigvgan_config", {})),
    )
    width = thinker.transformer.hidden_size
    if config.talker.embedding_size != width:
        raise top.section(_TALKER).error("embedding_size", f"must be the thinker's width, {width}")
    if config.vocoder.mel_dim != config.flow.mel_dim:
        raise token2wav.error("bigvgan_config.mel_dim", f"must be {config.flow.mel_dim}")
    return config


def _talker(section: ConfigSection) -> OmniTalkerConfig:
    tokens = section.build(
        TalkerTokens,
        keys={
            "text_end": "tts_text_end_token_id",
            "text_pad": "tts_text_pad_token_id",
            "codec_start": "tts_codec_start_token_id",
            "codec_end": "tts_codec_end_token_id",
            "codec_pad": "tts_codec_pad_token_id",
            "codec_mask": "tts_codec_mask_token_id",
        },
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


def _flow(section: ConfigSection) -> FlowConfig:
    rope = section.rope()
    rope.expect("rope_type", "default", default="default")
    ecapa = section.build(
        EcapaConfig,
        keys={
            "embedding_size": "enc_dim",
            "channels": "enc_channels",
            "kernel_sizes": "enc_kernel_sizes",
            "dilations": "enc_dilations",
            "attention_channels": "enc_attention_channels",
            "res2net_scale": "enc_res2net_scale",
            "se_channels": "enc_se_channels",
        },
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
