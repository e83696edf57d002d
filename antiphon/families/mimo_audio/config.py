"""Sizes of a checkpoint and of its audio tokenizer, as frozen dataclasses without torch."""

from dataclasses import dataclass
from typing import Final

from antiphon.nn.layer_configs import TransformerConfig

MAX_POSITIONS: Final = 8192
"""Groups of a request, prompt and speech together; a group is 160 ms, or a token of text."""

PASS_GROUPS: Final = 4
"""Groups that the tokenizer's decoder takes at once, in hardly more time than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiMoAudioConfig:
    """The language model over groups, with the local transformers around it.

    Attributes:
        transformer: the language model.
        decoder: the patch decoder, which makes the codes of a group.
        encoder: the patch encoder, which reads them.
        vocab_size: ids of text.
        group_frames: frames of codes in a group.
        code_sizes: codes of each channel, the empty one included.
        empty_codes: of each channel, where there is no audio.
        delays: of each channel, in steps of the patch decoder.
        is_encoder_causal: whether a frame of a group sees those before it alone.
    """

    transformer: TransformerConfig
    decoder: TransformerConfig
    encoder: TransformerConfig
    vocab_size: int
    group_frames: int
    code_sizes: tuple[int, ...]
    empty_codes: tuple[int, ...]
    delays: tuple[int, ...]
    is_encoder_causal: bool

    @property
    def num_channels(self) -> int:
        """Codes of a frame."""
        return len(self.code_sizes)

    @property
    def frame_size(self) -> int:
        """Numbers of a step: the id of text, then all codes of a group, frame by frame."""
        return 1 + self.group_frames * self.num_channels

    @property
    def empty_group(self) -> tuple[int, ...]:
        """The codes of a group without audio."""
        return self.empty_codes * self.group_frames


@dataclass(frozen=True, slots=True, kw_only=True)
class NetConfig:
    """A stack of layers of the tokenizer: LayerNorm, rotary attention, GELU.

    Attributes:
        left: positions before a query that it sees; ``None``: all.
        right: likewise, after it.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    rope_theta: float
    left: int | None
    right: int | None

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioTokenizerConfig:
    """MiMo-Audio-Tokenizer: audio to codes, and back.

    Attributes:
        encoder: layers between mel spectrogram and codes.
        decoder: layers after the codes.
        vocoder: layers between mel spectrogram and waveform.
        encoder_skip: layer whose result is added to the last one's; ``None``: none.
        kernel_size: of the encoder's convolutions.
        stride: of the second of them.
        pooling: positions of a frame, before and after the layers.
        decoder_kernel_size: of what makes the mel spectrogram.
        decoder_stride: mel frames of a position.
        code_sizes: of all quantizers.
        num_codes_used: quantizers that the language model speaks.
        fft_size: also the window's length.
        min_hz: lowest frequency of the encoder's mel spectrogram.
        max_hz: highest.
        norm_groups: see `num_ahead` of `antiphon.families.mimo_audio.codec_layers.TimeNorm`.
    """

    encoder: NetConfig
    decoder: NetConfig
    vocoder: NetConfig
    encoder_skip: int | None
    kernel_size: int
    stride: int
    pooling: int
    decoder_kernel_size: int
    decoder_stride: int
    num_mels: int
    code_sizes: tuple[int, ...]
    num_codes_used: int
    fft_size: int
    hop_samples: int
    sample_rate_hz: int
    min_hz: float
    max_hz: float
    group_frames: int
    norm_groups: int

    @property
    def group_positions(self) -> int:
        """Positions of the decoder's layers in a group."""
        return self.group_frames * self.pooling

    @property
    def group_mels(self) -> int:
        """Frames of mel spectrogram in a group."""
        return self.group_positions * self.decoder_stride

    @property
    def samples_per_group(self) -> int:
        """Samples that a group becomes."""
        return self.group_mels * self.hop_samples
