"""Sizes of a checkpoint and of its audio tokenizer, as frozen dataclasses without torch."""

from dataclasses import dataclass
from typing import Final

from antiphon.nn.layer_configs import TransformerConfig

MAX_POSITIONS: Final = 8192
"""Groups per request, prompt and speech together; a group is 160 ms or a text token."""

PASS_GROUPS: Final = 4
"""Groups per pass of the tokenizer's decoder, which takes hardly longer than one group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiMoAudioConfig:
    """Configuration of the language model over groups, and of its local transformers.

    Attributes:
        transformer: language model.
        decoder: patch decoder, which generates the codes of a group.
        encoder: patch encoder, which embeds them.
        vocab_size: text ids.
        group_frames: code frames per group.
        code_sizes: codes of each channel, including the empty one.
        empty_codes: code of each channel without audio.
        delays: delay of each channel in steps of the patch decoder.
        is_encoder_causal: whether frames in a group attend only to earlier ones.
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
        """Codes per frame."""
        return len(self.code_sizes)

    @property
    def frame_size(self) -> int:
        """Numbers per step: the text id, then all codes of a group, frame by frame."""
        return 1 + self.group_frames * self.num_channels

    @property
    def empty_group(self) -> tuple[int, ...]:
        """The codes of a group without audio."""
        return self.empty_codes * self.group_frames


@dataclass(frozen=True, slots=True, kw_only=True)
class NetConfig:
    """Configuration of a stack of tokenizer layers: LayerNorm, rotary attention, GELU.

    Attributes:
        left: attention window before a position; ``None``: unlimited.
        right: attention window after a position; ``None``: unlimited.
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
    """Configuration of MiMo-Audio-Tokenizer, which converts audio to codes and back.

    Attributes:
        encoder: layers between mel spectrogram and codes.
        decoder: layers after the codes.
        vocoder: layers between mel spectrogram and waveform.
        encoder_skip: layer whose output is added to the last one's; ``None``: none.
        kernel_size: kernel size of the encoder's convolutions.
        stride: stride of the encoder's second convolution.
        pooling: positions per frame, before and after the layers.
        decoder_kernel_size: kernel size of the transposed convolution to mel frames.
        decoder_stride: mel frames per position.
        code_sizes: codes of each quantizer.
        num_codes_used: number of quantizers used by the language model.
        fft_size: size of FFT and window.
        min_hz: lowest frequency of the encoder's mel spectrogram.
        max_hz: highest frequency of the encoder's mel spectrogram.
        norm_groups: look-ahead of norms, see `num_ahead` of
            `antiphon.families.mimo_audio.codec_layers.TimeNorm`.
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
        """Positions of the decoder's layers per group."""
        return self.group_frames * self.pooling

    @property
    def group_mels(self) -> int:
        """Mel frames per group."""
        return self.group_positions * self.decoder_stride

    @property
    def samples_per_group(self) -> int:
        """Samples per group."""
        return self.group_mels * self.hop_samples
