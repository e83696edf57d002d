"""Log-mel spectrograms: Slaney scale and area (as in librosa), natural logarithm."""

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from antiphon.nn.row_lengths import RowLengths

FFT_SIZE = 1024
HOP_SAMPLES = 256
_LOWEST_MAGNITUDE = 1e-5

_LINEAR_HZ_PER_MEL = 200.0 / 3
_FIRST_LOG_HZ = 1000.0
_FIRST_LOG_MEL = _FIRST_LOG_HZ / _LINEAR_HZ_PER_MEL
_LOG_STEP = np.log(6.4) / 27.0


def log_mel(
    samples: Tensor,
    num_mels: int,
    sample_rate_hz: int,
    *,
    fft_size: int = FFT_SIZE,
    hop_samples: int = HOP_SAMPLES,
) -> Tensor:
    """Return the log-mel spectrogram of ``samples``.

    Args:
        samples: float32 ``[num_samples]``, more than ``(fft_size - hop_samples) / 2``.
        num_mels: bands from 0 Hz to half the sample rate.
        fft_size: samples of a window.
        hop_samples: distance between windows.

    Returns:
        float32 ``[num_samples // hop_samples, num_mels]``.
    """
    edge = (fft_size - hop_samples) // 2
    padded = pad(samples[None], (edge, edge), mode="reflect")
    filters = torch.from_numpy(mel_filters(num_mels, sample_rate_hz, fft_size)).to(samples.device)
    return _filtered(padded, filters, fft_size, hop_samples)[0].T


def log_mel_rows(samples: Tensor, lengths: RowLengths, filters: Tensor) -> Tensor:
    """Return the log-mel spectrograms of several recordings, each as `log_mel` computes it.

    Args:
        samples: float32 ``[B, t]``; samples after a row's own are finite.
        lengths: rows' lengths in samples, each above the minimum of `log_mel`.
        filters: `mel_filters` on the device.

    Returns:
        float32 ``[B, num_mels, t // HOP_SAMPLES]``; frames after the first ``length //
        HOP_SAMPLES`` of a row are undefined.
    """
    edge = (FFT_SIZE - HOP_SAMPLES) // 2
    padded = lengths.pad(samples[:, None], edge, edge, "reflect")[:, 0]
    return _filtered(padded, filters, FFT_SIZE, HOP_SAMPLES)


def _filtered(padded: Tensor, filters: Tensor, fft_size: int, hop_samples: int) -> Tensor:
    """Map samples ``[B, t]`` to log magnitudes ``[B, num_mels, num_frames]``."""
    window = torch.hann_window(fft_size, device=padded.device)
    spectrum = torch.stft(
        padded, fft_size, hop_samples, window=window, center=False, return_complex=True
    )
    magnitude = torch.sqrt(torch.view_as_real(spectrum).square().sum(-1) + 1e-9)
    return (filters @ magnitude).clamp(min=_LOWEST_MAGNITUDE).log()


@cache
def mel_filters(
    num_mels: int, sample_rate_hz: int, fft_size: int = FFT_SIZE
) -> NDArray[np.float32]:
    """Return triangular filters of equal area, ``[num_mels, fft_size // 2 + 1]``."""
    bins_hz = np.fft.rfftfreq(fft_size, 1.0 / sample_rate_hz)
    top_hz = sample_rate_hz / 2
    assert top_hz >= _FIRST_LOG_HZ, "below, the Slaney scale is linear"
    top_mel = float(_FIRST_LOG_MEL + np.log(top_hz / _FIRST_LOG_HZ) / _LOG_STEP)
    mels = np.linspace(0.0, top_mel, num_mels + 2)
    above_hz = _FIRST_LOG_HZ * np.exp(_LOG_STEP * (mels - _FIRST_LOG_MEL))
    corners_hz: NDArray[np.float64] = np.where(
        mels >= _FIRST_LOG_MEL, above_hz, _LINEAR_HZ_PER_MEL * mels
    )
    widths_hz = np.diff(corners_hz)
    distances_hz = corners_hz[:, None] - bins_hz[None, :]
    rising = -distances_hz[:-2] / widths_hz[:-1, None]
    falling = distances_hz[2:] / widths_hz[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling)).astype(np.float32)
    area = 2.0 / (corners_hz[2:] - corners_hz[:-2])
    return (triangles * area[:, None]).astype(np.float32)
