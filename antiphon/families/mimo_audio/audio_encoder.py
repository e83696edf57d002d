"""Encoder stage: the tokenizer's encoder from whole recordings to codes."""

from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.families.kit.cloned_voices import CODES, RecordingLimits
from antiphon.families.kit.loading import weights_for
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.mimo_audio.checkpoint import encoder_part
from antiphon.families.mimo_audio.codec_layers import NetLayer, layer_norm
from antiphon.families.mimo_audio.config import (
    AudioTokenizerConfig,
    load_config,
    load_tokenizer_config,
    tokenizer_path,
)
from antiphon.nn.codec_layers.transformer import Frequencies, LayerNorm
from antiphon.nn.layers import Weights
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass
from antiphon.nn.row_lengths import RowLengths
from antiphon.nn.weights import open_weights

LengthT = TypeVar("LengthT", int, Tensor)

_LOWEST_MAGNITUDE = 1e-7
_MIN_RECORDING_S, _MAX_RECORDING_S = 0.5, 30


@dataclass(frozen=True, slots=True)
class AudioEncoder:
    """Mel spectrogram, two convolutions, transformer layers, and the quantizers that are used."""

    config: AudioTokenizerConfig
    filters: Tensor
    convolutions: tuple[tuple[Tensor, Tensor], ...]
    layers: tuple[NetLayer, ...]
    frequencies: Frequencies
    norm: LayerNorm
    pooling: Tensor
    pooled_norm: LayerNorm
    codebooks: tuple[Tensor, ...]

    @classmethod
    def of(cls, weights: Weights, config: AudioTokenizerConfig) -> "AudioEncoder":
        """Build the encoder from a tokenizer's tensors, in float32 and on one device."""
        convolutions = tuple(
            (weights[f"encoder.{name}.weight"], weights[f"encoder.{name}.bias"])
            for name in ("conv1", "conv2")
        )
        device = convolutions[0][0].device
        names = [f"encoder.layers.{index}" for index in range(config.encoder.num_layers)]
        return cls(
            config=config,
            filters=mel_filters(config).to(device),
            convolutions=convolutions,
            layers=tuple(NetLayer.of(weights, name, config.encoder) for name in names),
            frequencies=Frequencies.of(config.encoder.head_dim, config.encoder.rope_theta, device),
            norm=layer_norm(weights, "encoder.layer_norm"),
            pooling=weights["encoder.down_sample_layer.0.weight"],
            pooled_norm=layer_norm(weights, "encoder.down_sample_norm"),
            codebooks=tuple(
                weights[f"encoder.quantizer.vq.layers.{index}._codebook.embed"]
                for index in range(config.num_codes_used)
            ),
        )

    @property
    def frame_samples(self) -> int:
        return self.config.hop_samples * self.config.stride * self.config.pooling

    def num_frames(self, num_samples: int) -> int:
        """Return the number of code frames of a recording."""
        num_positions = -(-self._num_mels(num_samples) // self.config.stride)
        return -(-num_positions // self.config.pooling)

    def encode(self, samples: Tensor) -> Tensor:
        """Return codes, int64 ``[num_frames, num_codes_used]``, of samples, f32 ``[num_samples]``.

        ``num_samples`` must exceed half of a window.
        """
        lengths = torch.tensor([len(samples)], device=samples.device)
        return self.encode_rows(self.mels(samples[None], lengths), lengths)[0]

    def encode_rows(self, mels: Tensor, lengths: Tensor) -> Tensor:
        """Return codes, int64 ``[B, num_frames, num_codes_used]``, of mel spectrograms; see `mels`.

        ``lengths`` are numbers of samples, int64 ``[B]``; codes after a row's own are undefined.
        """
        return self.encode_mels(mels, RowLengths(self._num_mels(lengths)))

    def mels(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Return log-mel magnitudes, ``[B, num_mels, num_frames]``, of samples, f32 ``[B, t]``.

        ``lengths`` are numbers of samples, int64 ``[B]``, each more than half of a window.
        """
        size, hop = self.config.fft_size, self.config.hop_samples
        half = size // 2
        padded = RowLengths(lengths).pad(samples[:, None], half, half, "reflect")[:, 0]
        window = torch.hann_window(size, device=samples.device)
        spectrum = torch.stft(padded, size, hop, window=window, center=False, return_complex=True)
        return (self.filters @ spectrum.abs()).clamp(min=_LOWEST_MAGNITUDE).log()

    def encode_mels(self, mels: Tensor, lengths: RowLengths) -> Tensor:
        """Return codes of mel spectrograms, ``[B, num_mels, t]``; see `encode_rows`."""
        states = mels
        for (weight, bias), stride in zip(self.convolutions, (1, self.config.stride), strict=True):
            states = F.gelu(F.conv1d(lengths.pad(states, 1, 1, "constant"), weight, bias, stride))
            lengths = lengths.downsampled(stride)
        states = self._attended(states.transpose(1, 2), lengths)
        missing = -states.shape[1] % self.config.pooling
        padded = lengths.pad(states.transpose(1, 2), 0, missing, "constant")
        pooled = F.gelu(F.conv1d(padded, self.pooling, stride=self.config.pooling))
        states = self.pooled_norm(pooled.transpose(1, 2))
        codes = []
        for codebook in self.codebooks:
            # Squared distance to each vector, without the term that is the same for all vectors.
            distances = codebook.square().sum(1) - 2 * (states @ codebook.T)
            codes.append(distances.argmin(dim=2))
            states = states - F.embedding(codes[-1], codebook)
        return torch.stack(codes, dim=2)

    def _num_mels(self, num_samples: LengthT) -> LengthT:
        return num_samples // self.config.hop_samples + 1

    def _attended(self, states: Tensor, lengths: RowLengths) -> Tensor:
        positions = torch.arange(states.shape[1], device=states.device)
        rotation, mask = self.frequencies.at(positions, states.dtype), lengths.mask(len(positions))
        skipped = torch.zeros_like(states)
        for number, layer in enumerate(self.layers, start=1):
            heads = layer.project(states, rotation)
            states = layer.attend(states, heads[:, :, 0], heads[:, :, 1:], mask)
            if number == self.config.encoder_skip:
                skipped = states
        return self.norm(states + skipped)


def mel_filters(config: AudioTokenizerConfig) -> Tensor:
    """Return triangular filters of height 1 on HTK's scale, ``[num_mels, fft_size // 2 + 1]``."""
    bins_hz = torch.linspace(0, config.sample_rate_hz // 2, config.fft_size // 2 + 1).double()
    bounds = torch.tensor([config.min_hz, config.max_hz], dtype=torch.float64)
    low, high = 2595.0 * torch.log10(1.0 + bounds / 700.0)
    steps = torch.linspace(float(low), float(high), config.num_mels + 2, dtype=torch.float64)
    corners_hz = 700.0 * (10.0 ** (steps / 2595.0) - 1.0)
    widths_hz = corners_hz.diff()
    distances_hz = corners_hz[:, None] - bins_hz
    rising = -distances_hz[:-2] / widths_hz[:-1, None]
    falling = distances_hz[2:] / widths_hz[1:, None]
    return torch.minimum(rising, falling).clamp(min=0).float()


def load_voice_encoder(context: LoadContext, *, pads: bool | None = None) -> ClonedVoiceEncoder:
    """Load the tokenizer's encoder, whose codes are int64 ``[num_frames, num_codes]``.

    ``pads`` is whether recordings are encoded in padded batches; ``None``: only on a GPU. Raises
    ModelLoadError.
    """
    encoder = load_audio_encoder(context)
    rate_hz = encoder.config.sample_rate_hz
    codes = PaddedPass(encoder.encode_rows, encoder.encode, encoder.mels, encoder.num_frames)
    batches = PaddedBatches(
        {CODES: codes},
        encoder.filters.device,
        sample_rate_hz=rate_hz,
        samples_per_frame=encoder.frame_samples,
        pads=pads,
    )
    limits = RecordingLimits(rate_hz, _MAX_RECORDING_S, _MIN_RECORDING_S)
    return ClonedVoiceEncoder(batches, limits, [CODES])


def load_audio_encoder(context: LoadContext) -> AudioEncoder:
    """Load only the network; raises ModelLoadError."""
    path = tokenizer_path(context.checkpoint)
    config = load_tokenizer_config(path, load_config(context.checkpoint))
    opened = open_weights(encoder_part(path, config), **weights_for(context, dtype="float32"))
    with torch.inference_mode(), opened as weights:
        return AudioEncoder.of(weights, config)
