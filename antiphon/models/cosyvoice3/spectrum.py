"""Short-time spectra of a stream and back: what overlaps between calls is kept in its state."""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.nn.stream_conv import StreamState

_SAMPLES, _SUMS, _SKIPPED = "spectrum.samples", "spectrum.sums", "spectrum.skipped"
_MAX_MAGNITUDE = 100.0


@dataclass(frozen=True, slots=True)
class StreamSpectrum:
    """Spectra whose windows are centered on every ``hop``-th sample; the ends are mirrored.

    Attributes:
        window: Hann's, ``[4 * hop]``.
        hop: samples.
    """

    window: Tensor
    hop: int

    @property
    def size(self) -> int:
        return len(self.window)

    def analyze(
        self, samples: Tensor, num_frames: int | None, state: StreamState, *, is_end: bool
    ) -> Tensor:
        """Return the next spectra: real parts, then imaginary ones, ``[1, size + 2, frames]``.

        Args:
            samples: that come next, ``[num_samples]``; of the first ones, more than half a window.
            num_frames: spectra that are wanted now, for which samples are there; ``None``: all.
            state: of the stream.
            is_end: whether no samples follow.
        """
        half = self.size // 2
        kept = state.kept.get(_SAMPLES)
        if kept is None:
            samples = torch.cat((samples[1 : half + 1].flip(0), samples))
        else:
            samples = torch.cat((kept, samples))
        if is_end:
            samples = torch.cat((samples, samples[-half - 1 : -1].flip(0)))
        windows = samples.unfold(0, self.size, self.hop)[:num_frames]
        state.kept[_SAMPLES] = samples[len(windows) * self.hop :].clone()
        spectra = torch.fft.rfft(windows * self.window)
        return torch.cat((spectra.real, spectra.imag), dim=1).T[None]

    def synthesize(
        self, log_magnitudes: Tensor, phases: Tensor, state: StreamState, *, is_end: bool
    ) -> Tensor:
        """Return the samples that no later spectrum changes, ``[num_samples]``.

        Args:
            log_magnitudes: of the next spectra, ``[frames, size / 2 + 1]``; first, at least two.
            phases: likewise.
            state: of the stream.
            is_end: whether no spectra follow.
        """
        magnitudes = log_magnitudes.exp().clamp(max=_MAX_MAGNITUDE)
        waves = torch.fft.irfft(torch.polar(magnitudes, phases), n=self.size) * self.window
        squares = self.window.square().expand_as(waves)
        parts = torch.unflatten(torch.stack((waves, squares)), 2, (4, self.hop))
        num_frames = parts.shape[1]
        sums = parts.new_zeros(2, num_frames + 3, self.hop)
        if (kept := state.kept.get(_SUMS)) is not None:
            sums[:, :3] = kept
        for part in range(4):
            sums[:, part : part + num_frames] += parts[:, :, part]
        num_done = num_frames + 3 if is_end else num_frames
        state.kept[_SUMS] = sums[:, num_done:].clone()
        is_first = _SKIPPED not in state.kept
        state.kept[_SKIPPED] = sums.new_empty(0)
        # The first and the last two hops are of the mirrored ends.
        done = sums[:, 2 if is_first else 0 : num_done - (2 if is_end else 0)]
        return (done[0] / done[1]).flatten()
