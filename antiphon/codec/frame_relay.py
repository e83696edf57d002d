"""Frames that another stage makes, handed to a decoder on a device of its own, step by step."""

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from antiphon.codec.fused_runner import FusedRunner
from antiphon.codec.protocol import BoundedDecoder, StreamingDecoder
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.engine.plan import CodecShape
from antiphon.engine.runner import HostRunner


@dataclass(slots=True)
class _Arrived:
    """Frames of a request that are still to be handed on, and how many come a second time."""

    num_repeated: int
    frames: deque[NDArray[Any] | None] = field(default_factory=deque)


class FrameRelay(HostRunner[_Arrived]):
    """A `Runner` whose frames arrive as pieces of its requests instead of being computed.

    A piece's data is a frame, of any shape, or ``None`` after the last.
    """

    def start(self, prompt: Prompt, frames: Sequence[NDArray[Any]]) -> _Arrived:
        return _Arrived(len(frames))  # after a preemption all pieces are given again

    def append(self, state: _Arrived, piece: Piece) -> None:
        if state.num_repeated:
            state.num_repeated -= 1
        else:
            state.frames.append(piece.data)

    def next_frame(self, state: _Arrived) -> NDArray[Any] | None:
        # A step may be planned before it is known that the one before took the end.
        return state.frames.popleft() if state.frames else None


class CodecRunner(FusedRunner):
    """A `Runner` that decodes the frames of another stage.

    The scheduler plans for it as for a model with its codec: admission, slots, priming and
    preemption are the same, and chunks follow the playback clock.
    """

    def __init__(self, decoder: StreamingDecoder, num_slots: int) -> None:
        """Open the decoder with ``num_slots``, or with as many as it has room for."""
        if isinstance(decoder, BoundedDecoder):
            num_slots = min(num_slots, decoder.max_slots)
        super().__init__(FrameRelay(num_slots), decoder)

    @property
    def codec(self) -> CodecShape:
        return replace(super().codec, has_upstream=True)

    def on_stream(self) -> AbstractContextManager[object]:
        return self._decoder.on_stream(self._state)
