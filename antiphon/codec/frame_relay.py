"""Frames that another stage makes, handed to a decoder on a device of its own, step by step."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.engine.runner import HostRunner
from antiphon.models.base import Piece, Prompt


@dataclass(slots=True)
class _Arrived:
    """Frames of a request that are still to be handed on, and how many come a second time."""

    num_repeated: int
    frames: deque[NDArray[Any] | None] = field(default_factory=deque)


class FrameRelay(HostRunner[_Arrived]):
    """A `Runner` whose frames arrive as pieces of its requests instead of being computed.

    Fused with a decoder it is a codec stage that runs on the engine core, with its admission,
    playback clock and growing chunks. A piece's data is a frame, of any shape, or ``None`` after
    the last.
    """

    def __init__(self, num_slots: int) -> None:
        super().__init__(num_slots, frame_size=0)

    def start(self, prompt: Prompt, frames: Sequence[NDArray[Any]]) -> _Arrived:
        return _Arrived(len(frames))  # after a preemption all pieces are given again

    def append(self, state: _Arrived, piece: Piece) -> None:
        if state.num_repeated:
            state.num_repeated -= 1
        else:
            state.frames.append(piece.data)

    def next_frame(self, state: _Arrived) -> NDArray[Any] | None:
        return state.frames.popleft()

    def _keep(self, slot: int, frame: NDArray[Any]) -> None:
        if self.frame_store.shape[2:] != frame.shape:  # the first frame has the shape of all
            shape = self.num_slots, FRAME_STORE_FRAMES, *frame.shape
            self.frame_store = np.zeros(shape, frame.dtype)
        super()._keep(slot, frame)
