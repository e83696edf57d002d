"""Acoustic frames to audio, chunk by chunk, and at any chunking the same samples to the last bit.

A frame is 12.5 ms and describes a spectrum as a sum of three branches::

    S = e^harmonic · e^(iπ tanh harmonic_phase) · STFT(pulses)
      + e^noise · Z
      + e^residual · e^(i residual_phase)

``pulses`` is a train of unit harmonics that follows the pitch and ``Z`` is complex Gaussian noise.
An inverse STFT with overlapping windows turns spectra into samples. What one chunk must leave for
the next is small: the pitch phase, and the last three windowed frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.types import Samples

SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 300
WINDOW_SAMPLES = 1200
NUM_BINS = WINDOW_SAMPLES // 2 + 1
MIN_VOICED_HZ = 40.0

_OVERLAP = WINDOW_SAMPLES // FRAME_SAMPLES
_LOOKAHEAD_FRAMES = _OVERLAP // 2
_MAX_HARMONIC_HZ = np.float32(11_000.0)
_MAX_LOG_MAGNITUDE = np.float32(7.0)
_SILENT_LOG_MAGNITUDE = -20.0
_MIN_VOICED_HZ = np.float32(MIN_VOICED_HZ)

Floats: TypeAlias = NDArray[np.float32]
Spectra: TypeAlias = NDArray[np.complex64]

_WINDOW: Floats = np.square(
    np.sin(np.pi * np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES), dtype=np.float64
).astype(np.float32)
# A unit cosine then has a peak of 1: e^harmonic is the harmonic's magnitude in the spectrum.
_ANALYSIS_WINDOW: Floats = _WINDOW / np.float32(WINDOW_SAMPLES / 4)
_WINDOW_ENERGY: Floats = np.square(_WINDOW).reshape(_OVERLAP, FRAME_SAMPLES)
# Frame values hold at the frame's middle: how far each sample has gone from the value on its left.
_TOWARDS_RIGHT: Floats = (((np.arange(FRAME_SAMPLES) + 0.5) / FRAME_SAMPLES - 0.5) % 1.0).astype(
    np.float32
)


@dataclass(frozen=True, slots=True)
class AcousticFrames:
    """Output of the acoustic network for one sentence.

    Attributes:
        harmonic: log magnitudes, float32 ``[NUM_BINS, num_frames]``, as are the next four.
        harmonic_phase: phase before ``π tanh``.
        noise: log magnitudes.
        residual: log magnitudes.
        residual_phase: radians.
        f0_hz: pitch, float32 ``[num_frames]``; below 40 Hz the frame is unvoiced.
    """

    harmonic: Floats
    harmonic_phase: Floats
    noise: Floats
    residual: Floats
    residual_phase: Floats
    f0_hz: Floats

    @classmethod
    def from_network(cls, outputs: Sequence[NDArray[Any]]) -> "AcousticFrames":
        """Wrap the network's outputs, each with a batch dimension of one."""
        return cls(*(output[0] for output in outputs))

    @property
    def num_frames(self) -> int:
        return len(self.f0_hz)

    def cut(self, start: int, stop: int) -> "AcousticFrames":
        """Return frames ``start`` to ``stop``: views, or copies filled up with silence outside."""
        before, after = max(0, -start), max(0, stop - self.num_frames)
        inside = slice(max(0, start), stop)

        def part(values: Floats, fill: float) -> Floats:
            values = values[..., inside]
            if before == after == 0:
                return values
            margins = ((0, 0),) * (values.ndim - 1) + ((before, after),)
            return np.pad(values, margins, constant_values=np.float32(fill))

        return AcousticFrames(
            part(self.harmonic, _SILENT_LOG_MAGNITUDE),
            part(self.harmonic_phase, 0.0),
            part(self.noise, _SILENT_LOG_MAGNITUDE),
            part(self.residual, _SILENT_LOG_MAGNITUDE),
            part(self.residual_phase, 0.0),
            part(self.f0_hz, 0.0),
        )


class StreamingVocoder:
    """The audio of one sentence, read from start to end in pieces of any size."""

    def __init__(self, frames: AcousticFrames, noise: np.random.Generator) -> None:
        """Start at the first of ``frames``; ``noise`` is this sentence's alone."""
        assert frames.num_frames > 0
        self._frames = frames
        self._noise = noise
        self._f0_padded_hz = np.pad(frames.f0_hz, 1, mode="edge")
        self._f0_sum_hz = 0.0
        self._pulses: Floats = np.zeros(frames.num_frames * FRAME_SAMPLES, np.float32)
        self._num_pulse_frames = 0
        self._windowed: Floats = np.zeros((_OVERLAP - 1, _OVERLAP, FRAME_SAMPLES), np.float32)
        self._num_windowed_frames = 0
        self._num_read_frames = 0

    @property
    def num_remaining_frames(self) -> int:
        return self._frames.num_frames - self._num_read_frames

    def read(self, num_frames: int) -> Samples:
        """Return the next ``num_frames`` frames' samples, fewer if the sentence ends before.

        Shape ``[min(num_frames, num_remaining_frames) * FRAME_SAMPLES]``.
        """
        num_frames = min(num_frames, self.num_remaining_frames)
        if num_frames == 0:
            return np.zeros(0, np.float32)
        self._num_read_frames += num_frames
        # Windows are centred on frame borders: audio is complete two windows later.
        block_stop = self._num_read_frames + _LOOKAHEAD_FRAMES
        block_start = self._num_windowed_frames
        history = np.concatenate([self._windowed, self._windowed_frames(block_start, block_stop)])
        self._windowed = history[len(history) - (_OVERLAP - 1) :]
        self._num_windowed_frames = block_stop
        audio = _overlap_add(history) / self._window_energy(block_start, block_stop)
        return audio[-num_frames:].reshape(-1)

    def _windowed_frames(self, start: int, stop: int) -> Floats:
        """Windowed waveforms ``[stop - start, _OVERLAP, FRAME_SAMPLES]``, zero past the end."""
        num_present = min(stop, self._frames.num_frames) - start
        windowed = np.zeros((stop - start, WINDOW_SAMPLES), np.float32)
        if num_present > 0:
            spectra = self._spectra(start, start + num_present)
            windowed[:num_present] = np.fft.irfft(spectra, WINDOW_SAMPLES)
            windowed *= _WINDOW
        return windowed.reshape(-1, _OVERLAP, FRAME_SAMPLES)

    def _window_energy(self, start: int, stop: int) -> Floats:
        """Summed squared windows at blocks ``start`` to ``stop``: less at both ends."""
        frame = np.arange(start - (_OVERLAP - 1), stop)
        exists = ((frame >= 0) & (frame < self._frames.num_frames)).astype(np.float32)
        energy = _overlap_add(exists[:, None, None] * _WINDOW_ENERGY)
        return np.maximum(energy, np.float32(1e-11))

    def _spectra(self, start: int, stop: int) -> Spectra:
        """Spectra of frames ``start`` to ``stop``, ``[stop - start, NUM_BINS]``."""
        frames = self._frames.cut(start, stop)
        spectra = self._pulse_spectra(start, stop)
        spectra *= _polar(frames.harmonic, np.tanh(frames.harmonic_phase) * np.float32(np.pi))
        # One row a frame, in order: the draws do not depend on how frames are grouped.
        gaussian: Floats = self._noise.standard_normal(
            (stop - start, 2 * NUM_BINS), dtype=np.float32
        )
        spectra += gaussian.view(np.complex64) * _frame_major(_magnitude(frames.noise))
        spectra += _polar(frames.residual, frames.residual_phase)
        return spectra

    def _pulse_spectra(self, start: int, stop: int) -> Spectra:
        """The pulse train as the analysis windows of frames ``start`` to ``stop`` see it."""
        reach = WINDOW_SAMPLES // 2
        # The first frame's window mirrors its right half, border included.
        self._extend_pulses(max(stop + 1, _LOOKAHEAD_FRAMES + 1))
        positions = np.arange(
            start * FRAME_SAMPLES - reach, (stop - 1) * FRAME_SAMPLES + reach, dtype=np.intp
        )
        samples = self._pulses[_mirror(positions, len(self._pulses))]
        windows = np.lib.stride_tricks.sliding_window_view(samples, WINDOW_SAMPLES)[::FRAME_SAMPLES]
        return np.fft.rfft(windows * _ANALYSIS_WINDOW).astype(np.complex64, copy=False)

    def _extend_pulses(self, num_frames: int) -> None:
        """Make the pulse train reach ``num_frames``, or the end of the sentence."""
        start, stop = self._num_pulse_frames, min(num_frames, self._frames.num_frames)
        if start >= stop:
            return
        f0_hz = _interpolated(self._f0_padded_hz[start : stop + 2])
        voiced = f0_hz > _MIN_VOICED_HZ
        f0_hz = np.maximum(f0_hz, _MIN_VOICED_HZ)
        f0_sum_hz = np.cumsum(np.concatenate([[self._f0_sum_hz], f0_hz]), dtype=np.float64)
        self._f0_sum_hz = float(f0_sum_hz[-1])
        cycles = f0_sum_hz[1:] * (1.0 / SAMPLE_RATE_HZ)
        phase = ((cycles - np.floor(cycles)) * (2 * np.pi)).astype(np.float32)
        span = slice(start * FRAME_SAMPLES, stop * FRAME_SAMPLES)
        self._pulses[span] = np.where(voiced, _harmonic_sum(phase, f0_hz), np.float32(0))
        self._num_pulse_frames = stop


def _interpolated(f0_hz: Floats) -> Floats:
    """Pitch per sample of all frames but the first and last, which are only neighbours."""
    halves = FRAME_SAMPLES // 2
    left = np.stack([f0_hz[:-2], f0_hz[1:-1]], axis=1).repeat(halves, axis=1)
    right = np.stack([f0_hz[1:-1], f0_hz[2:]], axis=1).repeat(halves, axis=1)
    return (left * (1 - _TOWARDS_RIGHT) + right * _TOWARDS_RIGHT).reshape(-1)


def _harmonic_sum(phase: Floats, f0_hz: Floats) -> Floats:
    """Sum of ``cos(h · phase)`` over all harmonics below 11 kHz, in closed form."""
    order = np.floor(_MAX_HARMONIC_HZ / f0_hz) + np.float32(0.5)
    denominator = np.sin(phase * np.float32(0.5)) * np.float32(2)
    at_peak = np.abs(denominator) <= np.float32(2e-3)
    ratio = np.sin(order * phase) / np.where(at_peak, np.float32(1), denominator)
    harmonics: Floats = np.where(at_peak, order, ratio) - np.float32(0.5)
    return harmonics


def _mirror(positions: NDArray[np.intp], length: int) -> NDArray[np.intp]:
    """Reflect positions at both ends, without repeating the end samples, as often as it takes."""
    period = 2 * (length - 1)
    positions = positions % period
    return np.minimum(positions, period - positions)


def _overlap_add(windows: Floats) -> Floats:
    """Sum overlapping windows ``[n + 3, 4, FRAME_SAMPLES]`` into blocks ``[n, FRAME_SAMPLES]``.

    Block ``i`` gets part 0 of window ``i + 3``, part 1 of window ``i + 2`` and so on, newest
    first, whatever the number of windows: float sums depend on their order.
    """
    num_blocks = len(windows) - (_OVERLAP - 1)
    blocks = np.zeros((num_blocks, FRAME_SAMPLES), np.float32)
    for part in range(_OVERLAP):
        first = _OVERLAP - 1 - part
        blocks += windows[first : first + num_blocks, part]
    return blocks


def _magnitude(log_magnitude: Floats) -> Floats:
    magnitude: Floats = np.exp(np.minimum(log_magnitude, _MAX_LOG_MAGNITUDE))
    return magnitude


def _polar(log_magnitude: Floats, angle: Floats) -> Spectra:
    """Complex numbers ``[num_frames, NUM_BINS]`` from ``[NUM_BINS, num_frames]``."""
    magnitude = _frame_major(_magnitude(log_magnitude))
    angle = _frame_major(angle)
    spectra = np.empty(angle.shape, np.complex64)
    np.multiply(np.cos(angle), magnitude, out=spectra.real)
    np.multiply(np.sin(angle), magnitude, out=spectra.imag)
    return spectra


def _frame_major(values: Floats) -> Floats:
    return np.ascontiguousarray(values.T)
