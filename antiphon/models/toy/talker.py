"""The toy's AR loop: each frame depends on the letter, the frame before it and a random draw."""

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.plan import (
    FRAME_STORE_FRAMES,
    CacheShape,
    CodecShape,
    Start,
    StepOutput,
    StepPlan,
)
from antiphon.engine.runner import Done
from antiphon.models.base import Prompt
from antiphon.models.spec import LoadContext
from antiphon.models.toy.prompt import FRAMES_PER_LETTER, Letters

NUM_PITCHES = 24

ToyFrame = NDArray[np.float64]
"""Pitch in Hz and loudness in [0, 1], shape ``[2]``."""


@dataclass(slots=True)
class _Slot:
    prompt: Prompt
    letters: list[int]
    base_pitch_hz: float
    num_frames: int
    pitch: int

    @classmethod
    def of(cls, prompt: Prompt, frames: Sequence[ToyFrame]) -> "_Slot":
        """Begin a request, or go on after the frames that it has made."""
        data = prompt.data
        assert isinstance(data, Letters)
        pitch = 0
        if len(frames):
            pitch = round(NUM_PITCHES * float(np.log2(frames[-1][0] / data.base_pitch_hz)))
        return cls(prompt, [*data.letters], data.base_pitch_hz, len(frames), pitch)

    @property
    def has_finished(self) -> bool:
        return self.num_frames >= FRAMES_PER_LETTER * len(self.letters)

    def next_frame(self) -> ToyFrame:
        """Move from the last pitch toward the letter's, with a draw from (seed, frame number)."""
        letter = self.letters[self.num_frames // FRAMES_PER_LETTER]
        draw = np.random.default_rng((self.prompt.seed, self.num_frames)).random()
        temperature = self.prompt.sampling.temperature or 0.0
        step = int((letter - self.pitch) * 0.5 + temperature * 4 * (draw - 0.5))
        self.pitch = (self.pitch + step) % NUM_PITCHES
        self.num_frames += 1
        pitch_hz = self.base_pitch_hz * 2.0 ** (self.pitch / NUM_PITCHES)
        return np.array([pitch_hz, 0.0 if letter == ord(" ") else 0.3])


class ToyRunner:
    """Steps any number of requests; a frame depends on its own request alone.

    Attributes:
        num_slots: requests that can be under way at once.
        cache: none: all that the toy remembers is its last pitch.
        codec: none: it makes frames alone.
        frame_store: the latest frames of every slot, ``[num_slots, FRAME_STORE_FRAMES, 2]``.
    """

    cache: CacheShape | None = None
    codec: CodecShape | None = None

    def __init__(self, context: LoadContext) -> None:
        self.num_slots = context.max_slots
        self.frame_store = np.zeros((self.num_slots, FRAME_STORE_FRAMES, 2))
        self._slots: dict[int, _Slot] = {}

    def on_stream(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()

    def launch(self, plan: StepPlan) -> Done:
        for slot in plan.releases:
            del self._slots[slot]
        for start in plan.starts:
            self._start(start)
        for append in plan.appends:
            self._slots[append.slot].letters += append.piece.data
        frames, stopped = {}, set()
        for slot in plan.decode_slots:
            state = self._slots[slot]
            if state.has_finished:
                stopped.add(slot)
                continue
            place = state.num_frames % FRAME_STORE_FRAMES
            frames[slot] = self.frame_store[slot, place] = state.next_frame()
        return Done(StepOutput(frames, frozenset(stopped)))

    def close(self) -> None:
        self._slots.clear()

    def _start(self, start: Start) -> None:
        self._slots[start.slot] = _Slot.of(start.prompt, start.frames)
        for number, frame in enumerate(start.frames):
            self.frame_store[start.slot, number % FRAME_STORE_FRAMES] = frame
