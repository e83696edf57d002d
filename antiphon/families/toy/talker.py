"""The toy's AR loop: each frame depends on the letter, the frame before it and a random draw."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.engine.runner import HostRunner
from antiphon.families.toy.prompt import FRAMES_PER_LETTER, Letters

NUM_PITCHES = 24

ToyFrame = NDArray[np.float64]
"""Pitch in Hz and loudness in [0, 1], shape ``[2]``."""


@dataclass(slots=True)
class _State:
    prompt: Prompt
    letters: list[int]
    base_pitch_hz: float
    num_frames: int
    pitch: int


class ToyRunner(HostRunner[_State]):
    """Steps any number of requests; a frame depends on its own request alone."""

    def __init__(self, context: LoadContext) -> None:
        super().__init__(context.max_slots)

    def start(self, prompt: Prompt, frames: Sequence[ToyFrame]) -> _State:
        data = prompt.data
        assert isinstance(data, Letters)
        pitch = 0
        if len(frames):
            pitch = round(NUM_PITCHES * float(np.log2(frames[-1][0] / data.base_pitch_hz)))
        return _State(prompt, [*data.letters], data.base_pitch_hz, len(frames), pitch)

    def append(self, state: _State, piece: Piece) -> None:
        state.letters += piece.data

    def next_frame(self, state: _State) -> ToyFrame | None:
        """Move from the last pitch toward the letter's, with a draw from (seed, frame number)."""
        place = state.num_frames // FRAMES_PER_LETTER
        if place >= len(state.letters) and state.num_frames >= state.prompt.sampling.first_end:
            return None
        letter = state.letters[min(place, len(state.letters) - 1)]
        draw = np.random.default_rng((state.prompt.seed, state.num_frames)).random()
        temperature = state.prompt.sampling.temperature or 0.0
        step = int((letter - state.pitch) * 0.5 + temperature * 4 * (draw - 0.5))
        state.pitch = (state.pitch + step) % NUM_PITCHES
        state.num_frames += 1
        pitch_hz = state.base_pitch_hz * 2.0 ** (state.pitch / NUM_PITCHES)
        return np.array([pitch_hz, 0.0 if letter == ord(" ") else 0.3])
