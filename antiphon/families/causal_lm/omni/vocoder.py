"""BigVGAN vocoder: non-causal convolutions from a mel spectrogram to audio."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.causal_lm.omni.checkpoint import VOCODER
from antiphon.families.causal_lm.omni.config import BigVGANConfig
from antiphon.nn.layers import Snake, Weights

_MIN_DB, _REFERENCE_DB = -115.0, 20.0
_RATIO, _TAPS = 2, 12
_END_WIDTH = 7
"""Kernel size of the first and last convolution."""
_ACTIVATION_REACH = 6  # samples on each side: half of the taps of upsampling and downsampling


@dataclass(frozen=True, slots=True)
class SmoothSnake:
    """A `Snake` at twice the sample rate, with a low-pass filter against aliasing.

    Attributes:
        taps: taps of the filter, ``[channels, 1, 12]``.
    """

    snake: Snake
    taps: Tensor

    @classmethod
    def of(cls, weights: Weights, name: str) -> "SmoothSnake":
        """Load the activation ``name.act``."""
        snake = Snake.of(weights, f"{name}.act")
        taps = sinc_filter(0.5 / _RATIO, 0.6 / _RATIO, _TAPS).to(snake.frequency)
        size = len(snake.frequency)
        return cls(
            Snake(snake.frequency[:, None], snake.amplitude[:, None]), taps.expand(size, 1, _TAPS)
        )

    def __call__(self, x: Tensor) -> Tensor:
        size, wide = len(self.taps), _TAPS // _RATIO - 1
        x = F.pad(x, (wide, wide), mode="replicate")
        x = _RATIO * F.conv_transpose1d(x, self.taps, stride=_RATIO, groups=size)
        cut = wide * _RATIO + (_TAPS - _RATIO) // 2
        x = self.snake(x[..., cut:-cut])
        x = F.pad(x, (_TAPS // 2 - 1, _TAPS // 2), mode="replicate")
        return F.conv1d(x, self.taps, stride=_RATIO, groups=size)


@dataclass(frozen=True, slots=True)
class SmoothBlock:
    """Residual pairs of convolutions with preceding activations."""

    convs: tuple[tuple[Tensor, Tensor], ...]
    activations: tuple[SmoothSnake, ...]
    dilations: tuple[int, ...]

    @classmethod
    def of(cls, weights: Weights, name: str, dilations: tuple[int, ...]) -> "SmoothBlock":
        convs, activations = [], []
        for place in range(len(dilations)):
            for pair in (1, 2):
                conv = f"{name}.convs{pair}.{place}"
                convs.append((weights[f"{conv}.weight"], weights[f"{conv}.bias"]))
                activation = f"{name}.activations.{2 * place + pair - 1}"
                activations.append(SmoothSnake.of(weights, activation))
        return cls(tuple(convs), tuple(activations), dilations)

    def __call__(self, x: Tensor) -> Tensor:
        for place, dilation in enumerate(self.dilations):
            branch = x
            for pair, spread in enumerate((dilation, 1)):
                weight, bias = self.convs[2 * place + pair]
                branch = self.activations[2 * place + pair](branch)
                padding = spread * (weight.shape[2] - 1) // 2
                branch = F.conv1d(branch, weight, bias, padding=padding, dilation=spread)
            x = x + branch
        return x


class OmniVocoder:
    """The vocoder, which computes in float32."""

    def __init__(self, config: BigVGANConfig, weights: Weights) -> None:
        """Build the network from a checkpoint's tensors."""
        self.config = config
        name = f"{VOCODER}.conv_pre"
        self._first = weights[f"{name}.weight"], weights[f"{name}.bias"]
        self._ups = []
        self._blocks = []
        for index in range(len(config.rates)):
            name = f"{VOCODER}.ups.{index}.0"
            self._ups.append((weights[f"{name}.weight"], weights[f"{name}.bias"]))
            first = index * len(config.dilations)
            self._blocks.append(
                [
                    SmoothBlock.of(weights, f"{VOCODER}.resblocks.{first + place}", dilations)
                    for place, dilations in enumerate(config.dilations)
                ]
            )
        self._last_activation = SmoothSnake.of(weights, f"{VOCODER}.activation_post")
        self._last = weights[f"{VOCODER}.conv_post.weight"]

    def __call__(self, mel: Tensor) -> Tensor:
        """Return samples in [-1, 1], ``[B, T * hop]``, of a spectrogram, ``[B, T, mel_dim]``."""
        x = F.conv1d(_levels(mel).transpose(1, 2), *self._first, padding=_END_WIDTH // 2)
        for rate, (weight, bias), blocks in zip(
            self.config.rates, self._ups, self._blocks, strict=True
        ):
            padding = (weight.shape[2] - rate) // 2
            x = F.conv_transpose1d(x, weight, bias, stride=rate, padding=padding)
            x = sum((block(x) for block in blocks), torch.zeros_like(x)) / len(blocks)
        x = F.conv1d(self._last_activation(x), self._last, padding=_END_WIDTH // 2)
        return x[:, 0].clamp(-1.0, 1.0)


def reach_frames(config: BigVGANConfig) -> int:
    """Return the receptive field of a frame's samples, in frames on each side."""
    reach = _END_WIDTH // 2 + _ACTIVATION_REACH
    for rate, width in zip(config.rates[::-1], config.up_kernel_sizes[::-1], strict=True):
        reach += max(
            sum((spread + 1) * (size - 1) // 2 + 2 * _ACTIVATION_REACH for spread in dilations)
            for size, dilations in zip(config.kernel_sizes, config.dilations, strict=True)
        )
        reach = -(-(reach + (width - rate + 1) // 2) // rate)
    return reach + _END_WIDTH // 2


def sinc_filter(cutoff: float, half_width: float, num_taps: int) -> Tensor:
    """Return a low-pass filter, a Kaiser-windowed sinc of sum 1, f32 ``[num_taps]``.

    Args:
        cutoff: cutoff frequency as a fraction of the sample rate.
        half_width: half the width of the transition band as a fraction of the sample rate.
        num_taps: even number of taps.
    """
    half = num_taps // 2
    attenuation_db = 2.285 * (half - 1) * math.pi * 4 * half_width + 7.95
    beta = 0.0
    if attenuation_db > 50.0:
        beta = 0.1102 * (attenuation_db - 8.7)
    elif attenuation_db >= 21.0:
        beta = 0.5842 * (attenuation_db - 21) ** 0.4 + 0.07886 * (attenuation_db - 21.0)
    window = torch.kaiser_window(num_taps, beta=beta, periodic=False, dtype=torch.float32)
    taps = window * torch.sinc(2 * cutoff * (torch.arange(-half, half) + 0.5))
    return taps / taps.sum()


def _levels(mel: Tensor) -> Tensor:
    """Convert a log spectrogram to decibels, scaled to the range from -1 to 1."""
    quietest = math.exp(_MIN_DB / 20.0 * math.log(10.0))
    decibels = 20 * torch.log10(mel.exp().clamp(min=quietest)) - _REFERENCE_DB
    return (2 * ((decibels - _MIN_DB) / -_MIN_DB) - 1).clamp(-1.0, 1.0)
