"""Distances of spectra, and losses of an adversarial game with least squares."""

from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon_training.shards import UNKNOWN
from antiphon_training.sizes import SAMPLE_RATE_HZ

_MELS_BY_WINDOW = {32: 5, 64: 10, 128: 20, 256: 40, 512: 80, 1024: 160, 2048: 320}
_LINEAR_WINDOWS = (128, 512, 2048)
_FLOOR = 1e-5


def mel_distance(samples: Tensor, target: Tensor) -> Tensor:
    """Return the mean distance of log mel spectra of seven sizes; samples ``[B, t]``, float32."""
    both = torch.cat((samples, target))
    total = samples.new_zeros(())
    for window_samples, num_mels in _MELS_BY_WINDOW.items():
        first, second = log_mel(both, window_samples, num_mels).chunk(2)
        total = total + F.l1_loss(first, second)
    return total / len(_MELS_BY_WINDOW)


def linear_distance(samples: Tensor, target: Tensor) -> Tensor:
    """Return the distance of magnitudes relative to the target's: what is loud counts most.

    Logarithms alone distinguish little when a training begins, and everything is equally far.
    """
    both = torch.cat((samples, target))
    total = samples.new_zeros(())
    for window_samples in _LINEAR_WINDOWS:
        first, second = spectrum(both, window_samples, window_samples // 4).abs().chunk(2)
        total = total + (first - second).abs().mean() / second.mean().clamp(min=_FLOOR)
    return total / len(_LINEAR_WINDOWS)


def log_mel(samples: Tensor, window_samples: int, num_mels: int) -> Tensor:
    """Return the log mel spectrum to base 10, ``[B, num_mels, num_columns]``."""
    magnitude = spectrum(samples, window_samples, window_samples // 4).abs()
    filters = _mel_filters(window_samples, num_mels, samples.device)
    return (filters @ magnitude).clamp(min=_FLOOR).log10()


def spectrum(samples: Tensor, window_samples: int, hop_samples: int) -> Tensor:
    """Return the complex spectrum of ``[B, t]``, ``[B, num_bins, num_columns]``."""
    window = _window(window_samples, samples.device)
    padded = F.pad(samples, (window_samples // 2, window_samples // 2))
    return torch.stft(
        padded, window_samples, hop_samples, window=window, center=False, return_complex=True
    )


def discriminator_loss(real: Sequence[Tensor], fake: Sequence[Tensor]) -> Tensor:
    """Return how far scores of real samples are from 1 and those of fake ones from 0."""
    pairs = zip(real, fake, strict=True)
    losses = [(1 - each).square().mean() + other.square().mean() for each, other in pairs]
    return torch.stack(losses).mean()


def adversarial_loss(fake: Sequence[Tensor]) -> Tensor:
    """Return how far scores of fake samples are from 1."""
    return torch.stack([(1 - each).square().mean() for each in fake]).mean()


def feature_distance(real: Sequence[Tensor], fake: Sequence[Tensor]) -> Tensor:
    """Return the mean distance of a discriminator's activations."""
    pairs = zip(real, fake, strict=True)
    return torch.stack([F.l1_loss(other, each.detach()) for each, other in pairs]).mean()


def phoneme_loss(logits: Tensor, phonemes: Tensor) -> Tensor:
    """Return the mean cross entropy of the phonemes that are known; 0 if none is.

    Args:
        logits: ``[..., num_phonemes]``.
        phonemes: int64 ``[...]``, `UNKNOWN` where they are not known.
    """
    loss = F.cross_entropy(
        logits.flatten(0, -2).float(), phonemes.flatten(), ignore_index=UNKNOWN, reduction="sum"
    )
    return loss / (phonemes != UNKNOWN).sum().clamp(min=1)


@cache
def _window(window_samples: int, device: torch.device) -> Tensor:
    return torch.hann_window(window_samples, device=device)


@cache
def _mel_filters(window_samples: int, num_mels: int, device: torch.device) -> Tensor:
    """Return triangular filters, ``[num_mels, num_bins]``, equally spaced on the mel scale.

    A narrow filter between two bins would be empty: it takes the nearest bin.
    """
    nyquist_hz = SAMPLE_RATE_HZ / 2
    top = 2595 * torch.log10(torch.tensor(1 + nyquist_hz / 700, dtype=torch.float64))
    edges_hz = 700 * (10 ** (torch.linspace(0, float(top), num_mels + 2).double() / 2595) - 1)
    num_bins = window_samples // 2 + 1
    bins_hz = torch.linspace(0, nyquist_hz, num_bins, dtype=torch.float64)
    low, middle, high = (edges_hz[i : i + num_mels, None] for i in range(3))
    filters = torch.minimum((bins_hz - low) / (middle - low), (high - bins_hz) / (high - middle))
    filters = filters.clamp(min=0)
    empty = filters.sum(1) == 0
    nearest = (bins_hz - middle).abs().argmin(1)
    filters[empty, nearest[empty]] = 1.0
    return (filters / filters.sum(1, keepdim=True)).float().to(device)
