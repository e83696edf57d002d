"""Streaming short-time spectra and their inverse; overlaps between calls are kept in the state."""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.families.cosyvoice3.stream_conv import StreamState

_SAMPLES, _SUMS = "spectrum.samples", "spectrum.sums"
_MAX_MAGNITUDE = 100.0


@dataclass(frozen=True, slots=True)
class StreamSpectrum:
    """Spectra with windows centred on every ``hop``-th sample and mirrored ends.

    They are small enough for a matrix product, which can be part of a CUDA graph.

    Attributes:
        window: Hann window, ``[4 * hop]``.
        hop: samples between windows.
        analysis: windowed waves, ``[size, size + 2]``; real parts, then imaginary ones.
        synthesis: inverse of ``analysis``, also windowed, ``[size + 2, size]``.
    """

    window: Tensor
    hop: int
    analysis: Tensor
    synthesis: Tensor

    @classmethod
    def of(cls, window: Tensor, hop: int) -> "StreamSpectrum":
        """Build the transform from a window, f32 ``[4 * hop]``."""
        size = len(window)
        eye = torch.eye(size, dtype=torch.float64)
        waves = torch.fft.rfft(eye * window.double().cpu()[:, None])
        parts = torch.eye(size // 2 + 1, dtype=torch.complex128)
        inverse = torch.cat((torch.fft.irfft(parts, n=size), torch.fft.irfft(1j * parts, n=size)))
        return cls(
            window,
            hop,
            torch.cat((waves.real, waves.imag), dim=1).to(window),
            (inverse * window.double().cpu()).to(window),
        )

    @property
    def size(self) -> int:
        return len(self.window)

    def analyze(
        self,
        samples: Tensor,
        num_frames: int | None,
        state: StreamState,
        num_there: Tensor | None = None,
    ) -> Tensor:
        """Return the next spectra of each row: real parts, then imaginary ones.

        Args:
            samples: next samples, ``[num_rows, num_samples]``; in a stream's first call, more than
                half a window.
            num_frames: number of spectra to return, for which samples must be available; ``None``:
                all.
            num_there: number of valid samples of streams that end, int64 ``[num_rows]``; ``None``:
                they go on.

        Returns:
            ``[num_rows, size + 2, frames]``.
        """
        half = self.size // 2
        kept = state.get(_SAMPLES)
        if kept is None:
            kept = samples[:, 1 : half + 1].flip(1)
        samples = torch.cat((kept, samples), dim=1)
        if num_there is not None:
            samples = _mirrored(samples, half, num_there + kept.shape[1])
        windows = samples.unfold(1, self.size, self.hop)[:, :num_frames]
        state[_SAMPLES] = samples[:, windows.shape[1] * self.hop :].clone()
        return (windows @ self.analysis).transpose(1, 2)

    def synthesize(
        self,
        log_magnitudes: Tensor,
        phases: Tensor,
        state: StreamState,
        num_there: Tensor | None = None,
    ) -> Tensor:
        """Return the samples that no later spectrum changes, ``[num_rows, num_samples]``.

        Args:
            log_magnitudes: log magnitudes of the next spectra, ``[num_rows, frames,
                size / 2 + 1]``; at least two spectra in a stream's first call.
            phases: phases of the same shape.
            num_there: number of valid spectra of streams that end, int64 ``[num_rows]``, before
                those whose samples are undefined; ``None``: they go on.
        """
        magnitudes = log_magnitudes.exp().clamp(max=_MAX_MAGNITUDE)
        parts = (magnitudes * phases.cos(), magnitudes * phases.sin())
        waves = torch.cat(parts, dim=2) @ self.synthesis
        squares = self.window.square().expand_as(waves)
        if num_there is not None:
            numbers = torch.arange(waves.shape[1], device=waves.device)
            is_there = (numbers < num_there[:, None])[..., None]
            waves, squares = (torch.where(is_there, each, 0.0) for each in (waves, squares))
        pieces = torch.unflatten(torch.stack((waves, squares), dim=1), 3, (4, self.hop))
        num_rows, num_frames = waves.shape[:2]
        sums = waves.new_zeros(num_rows, 2, num_frames + 3, self.hop)
        kept = state.get(_SUMS)
        if kept is not None:
            sums[:, :, :3] = kept
        for part in range(4):
            sums[:, :, part : part + num_frames] += pieces[:, :, :, part]
        num_done, num_last = (num_frames, 0) if num_there is None else (num_frames + 3, 2)
        state[_SUMS] = sums[:, :, num_done:].clone()
        # The first and last two hops belong to the mirrored ends.
        done = sums[:, :, 2 if kept is None else 0 : num_done - num_last]
        return (done[:, 0] / done[:, 1]).flatten(1)


def _mirrored(samples: Tensor, num_more: int, num_there: Tensor) -> Tensor:
    """Return samples, ``[num_rows, n + num_more]``, mirrored at the last valid sample."""
    places = torch.arange(samples.shape[1] + num_more, device=samples.device)
    last = num_there[:, None] - 1
    return samples.gather(1, torch.where(places <= last, places, 2 * last - places).clamp(min=0))
