"""The toy's codec: a tone per frame, its phase and loudness carried so that nothing clicks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.codec.host.row_decoder import RowDecoder
from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Samples
from antiphon.families.toy.prompt import SAMPLE_RATE_HZ
from antiphon.families.toy.talker import ToyFrame


@dataclass(slots=True)
class ToneState:
    """Phase and loudness at the end of the last frame."""

    phase_cycles: float = 0.0
    loudness: float = 0.0


class ToneCodec(RowDecoder):
    """Decodes ``[pitch, loudness]`` frames of 40 ms."""

    sample_rate_hz = SAMPLE_RATE_HZ
    samples_per_frame = 960

    def __init__(self, context: LoadContext) -> None:
        self._ramp = np.arange(1, self.samples_per_frame + 1) / self.samples_per_frame

    def open(self, num_slots: int) -> list[ToneState]:
        return [ToneState() for _ in range(num_slots)]

    def reset(self, state: list[ToneState], slot: int, conditioning: None = None) -> None:
        state[slot] = ToneState()

    def decode_row(self, frames: NDArray[np.float64], state: list[ToneState], slot: int) -> Samples:
        return np.concatenate([self._tone(frame, state[slot]) for frame in frames])

    def close(self) -> None:
        """Nothing to free."""

    def _tone(self, frame: ToyFrame, state: ToneState) -> Samples:
        pitch_hz, loudness = frame
        cycles = pitch_hz * self.samples_per_frame / self.sample_rate_hz
        tone = np.sin(2 * np.pi * (state.phase_cycles + cycles * self._ramp))
        envelope = state.loudness + (loudness - state.loudness) * self._ramp
        state.phase_cycles = (state.phase_cycles + cycles) % 1.0
        state.loudness = float(loudness)
        return np.asarray(tone * envelope, np.float32)
