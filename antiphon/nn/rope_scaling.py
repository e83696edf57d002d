"""RoPE scaling for contexts longer than the trained length."""

import math

import torch
from torch import Tensor

from antiphon.nn.layer_configs import (
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    RopeScaling,
    YarnScaling,
)


def scaled(frequencies: Tensor, scaling: RopeScaling | None, theta: float) -> Tensor:
    """Return scaled radians per position, ``[rotary_dim // 2]``.

    Args:
        frequencies: radians per position, ``theta ** (-2 * index / rotary_dim)``.
        scaling: ``None`` changes nothing.
        theta: base of the frequencies.
    """
    match scaling:
        case None:
            return frequencies
        case LinearScaling():
            return frequencies / scaling.factor
        case LongRopeScaling():
            return frequencies / torch.tensor(scaling.factors)
        case Llama3Scaling():
            share = _llama3_share(frequencies, scaling)
        case YarnScaling():
            share = _yarn_share(frequencies, scaling, theta)
    return share * frequencies + (1.0 - share) * frequencies / scaling.factor


def amplitude_of(scaling: RopeScaling | None) -> float:
    """Return the amplitude of cosines and sines."""
    if isinstance(scaling, LongRopeScaling):
        return scaling.amplitude
    if not isinstance(scaling, YarnScaling):
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    return 0.1 * math.log(scaling.factor) + 1.0 if scaling.factor > 1.0 else 1.0


def _llama3_share(frequencies: Tensor, scaling: Llama3Scaling) -> Tensor:
    """Return the unscaled share of each frequency: 1 for short wavelengths."""
    turns = scaling.original_positions * frequencies / (2 * math.pi)  # over the original length
    share = (turns - scaling.low_factor) / (scaling.high_factor - scaling.low_factor)
    return share.clamp(0.0, 1.0)


def _yarn_share(frequencies: Tensor, scaling: YarnScaling, theta: float) -> Tensor:
    """Return the unscaled share of each frequency, linear in its index between whole numbers."""
    num_frequencies = len(frequencies)

    def index_of(num_turns: float) -> float:
        """Return the index of the wavelength with this many turns over the original length."""
        wavelength = scaling.original_positions / num_turns
        return num_frequencies * math.log(wavelength / (2 * math.pi)) / math.log(theta)

    low = max(math.floor(index_of(scaling.beta_fast)), 0)
    high = min(math.ceil(index_of(scaling.beta_slow)), 2 * num_frequencies - 1)
    width = high - low or 0.001
    return 1.0 - ((torch.arange(num_frequencies).float() - low) / width).clamp(0.0, 1.0)
