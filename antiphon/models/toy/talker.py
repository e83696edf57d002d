"""The toy's AR loop: each frame depends on the letter, the frame before it and a random draw."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.plan import StepOutput, StepPlan
from antiphon.engine.runner import Done
from antiphon.models.base import Prompt
from antiphon.models.spec import LoadContext
from antiphon.models.toy.prompt import Letters

FRAMES_PER_LETTER = 2
NUM_PITCHES = 24

ToyFrame = NDArray[np.float64]
"""Pitch in Hz and loudness in [0, 1], shape ``[2]``."""


@dataclass(slots=True)
class _Slot:
    prompt: Prompt
    num_frames: int = 0
    pitch: int = 0
    letters: Letters = field(init=False)

    def __post_init__(self) -> None:
        assert isinstance(self.prompt.data, Letters)
        self.letters = self.prompt.data


class ToyRunner:
    """Steps any number of requests; a frame depends on its own request alone."""

    def __init__(self, context: LoadContext) -> None:
        self.num_slots = context.max_slots
        self._slots: dict[int, _Slot] = {}

    def launch(self, plan: StepPlan) -> Done:
        for slot in plan.releases:
            del self._slots[slot]
        for start in plan.starts:
            self._slots[start.slot] = _Slot(start.prompt)
        stopped = frozenset(slot for slot in plan.slots if self._has_finished(self._slots[slot]))
        frames = {
            slot: _next_frame(self._slots[slot]) for slot in plan.slots if slot not in stopped
        }
        return Done(StepOutput(frames, stopped))

    def close(self) -> None:
        self._slots.clear()

    @staticmethod
    def _has_finished(state: _Slot) -> bool:
        return state.num_frames >= FRAMES_PER_LETTER * len(state.letters.letters)


def _next_frame(state: _Slot) -> ToyFrame:
    """Move from the last pitch toward the letter's, with a draw from (seed, frame number)."""
    letter = state.letters.letters[state.num_frames // FRAMES_PER_LETTER]
    draw = np.random.default_rng((state.prompt.seed, state.num_frames)).random()
    temperature = state.prompt.sampling.temperature or 0.0
    step = int((letter - state.pitch) * 0.5 + temperature * 4 * (draw - 0.5))
    state.pitch = (state.pitch + step) % NUM_PITCHES
    state.num_frames += 1
    pitch_hz = state.letters.base_pitch_hz * 2.0 ** (state.pitch / NUM_PITCHES)
    return np.array([pitch_hz, 0.0 if letter == ord(" ") else 0.3])
