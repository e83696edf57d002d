"""Short-time spectra and their inverse, of whole signals or of padded rows."""

import torch
from torch import Tensor
from torch.nn import functional

from antiphon.families.kokoro.padding import PaddedRows

_NO_WINDOW = 1e-6


def spectra(samples: Tensor, window: Tensor, hop_size: int, rows: PaddedRows | None) -> Tensor:
    """Return magnitudes, then phases, ``[B, fft_size + 2, num_spectra]``.

    Args:
        samples: ``[B, t]``; the signal goes on mirrored at both of its ends.
        window: ``[fft_size]``.
        hop_size: samples between spectra.
        rows: lengths of padded rows; ``None``: no padding.
    """
    size = len(window)
    if rows is None:
        found = torch.stft(samples, size, hop_size, window=window, return_complex=True)
    else:
        half = size // 2
        mirrored = rows.lengths.pad(samples[:, None], half, half, "reflect")[:, 0]
        found = torch.fft.rfft(mirrored.unfold(-1, size, hop_size) * window).mT
    return torch.cat([found.abs(), found.angle()], dim=1)


def signal(spectrum: Tensor, window: Tensor, hop_size: int, rows: PaddedRows | None) -> Tensor:
    """Return the samples of complex spectra, ``[B, (num_spectra - 1) * hop_size]``.

    Args:
        spectrum: ``[B, fft_size // 2 + 1, num_spectra]``.
        window: ``[fft_size]``, a multiple of ``hop_size`` and of 2.
        hop_size: samples between spectra.
        rows: lengths of padded rows; spectra in the padding are finite. ``None``: no padding.
    """
    size = len(window)
    if rows is None:
        return torch.istft(spectrum, size, hop_size, window=window)
    pieces = torch.fft.irfft(spectrum.mT, n=size) * window * rows.mask.mT
    windows = rows.mask.mT * window.square()
    half = size // 2
    joined, weights = (_overlapped(each, hop_size)[:, half:-half] for each in (pieces, windows))
    return joined / weights.clamp(min=_NO_WINDOW)


def _overlapped(pieces: Tensor, hop_size: int) -> Tensor:
    """Return the sum of pieces ``[B, n, size]`` that begin ``hop_size`` apart."""
    parts = torch.split(pieces, hop_size, dim=-1)
    last = len(parts) - 1
    placed = [functional.pad(part, (0, 0, k, last - k)) for k, part in enumerate(parts)]
    return torch.stack(placed).sum(dim=0).flatten(1)
