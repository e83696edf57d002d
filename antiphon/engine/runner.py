"""Interface of step runners, sizes of their work and memory, and a base for those on the host."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.engine.plan import FRAME_STORE_FRAMES, CacheShape, CodecShape, StepOutput, StepPlan

ROW_BUCKETS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
_ROW_BUCKET_STEP = 128  # beyond the last

FRAME_BUCKETS = (1, 2, 4, 6, 8, 12, *range(16, 128, 8), *range(128, 256, 16), *range(256, 513, 32))
"""Frames that a pass of a codec on a GPU is rounded up to; more take several passes."""

TOKEN_BUCKETS = (16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024)
_TOKEN_BUCKET_STEP = 512  # beyond the last

BLOCK_POSITIONS = 16

StateT = TypeVar("StateT")
ResultT = TypeVar("ResultT", covariant=True)


def row_buckets(most: int) -> tuple[int, ...]:
    """Return the numbers of rows, up to ``most``, to which a device rounds up its work."""
    sizes = [*ROW_BUCKETS, *range(ROW_BUCKETS[-1] + _ROW_BUCKET_STEP, most, _ROW_BUCKET_STEP)]
    return (*(size for size in sizes if size < most), most)


def token_buckets(num_slots: int) -> tuple[int, ...]:
    """Return the sizes to which a pass over prompts and rows is rounded up.

    The last has room for a row of every slot, and a thousand prompt positions beside them.
    """
    most, last = TOKEN_BUCKETS[-1] + num_slots, TOKEN_BUCKETS[-1]
    return (*TOKEN_BUCKETS, *range(last + _TOKEN_BUCKET_STEP, most, _TOKEN_BUCKET_STEP), most)


def frame_buckets(most: int) -> tuple[int, ...]:
    """Return the numbers of frames, up to ``most``, to which passes of a codec are rounded up."""
    return (*(size for size in FRAME_BUCKETS if size < most), most)


def num_blocks_of(num_positions: int) -> int:
    """Return how many blocks the positions of one request take."""
    return -(-num_positions // BLOCK_POSITIONS)


class Pending(Protocol[ResultT]):
    """Work that has been launched."""

    @property
    def is_done(self) -> bool:
        """Whether `result` returns at once."""

    def wait(self) -> None:
        """Wait until it is done, in any thread, while others run."""

    def result(self) -> ResultT:
        """Wait for the result; called once, in the order of the launches."""


PendingStep: TypeAlias = Pending[StepOutput]


@dataclass(frozen=True, slots=True)
class Done(Generic[ResultT]):
    """A `Pending` result that was computed where it was called."""

    output: ResultT
    is_done: bool = True

    def wait(self) -> None:
        """Return at once."""

    def result(self) -> ResultT:
        return self.output


class Runner(Protocol):
    """Holds the model and the state of every slot; called from the engine's thread only.

    A frame depends on its own request alone (prompt, seed, frame number), never on its slot or on
    the batch. A step may be launched before the result of the one before has been taken; they are
    executed in order.
    """

    @property
    def num_slots(self) -> int:
        """Number of requests that can run at once."""

    @property
    def row_buckets(self) -> Sequence[int]:
        """Numbers of rows, ascending, between which steps take equally long."""

    @property
    def cache(self) -> CacheShape | None:
        """Shape of the paged KV cache; ``None``: it needs no blocks and no prefills."""

    @property
    def codec(self) -> CodecShape | None:
        """Shape of the codec; ``None``: the runner only makes frames."""

    def launch(self, plan: StepPlan) -> PendingStep:
        """Launch one step."""

    def close(self) -> None:
        """Free the memory of the model."""


class HostRunner(ABC, Generic[StateT]):
    """A `Runner` that computes requests one after the other, by methods of a single request.

    Attributes:
        frame_store: latest frames, ``[num_slots, FRAME_STORE_FRAMES, ...]``; ``None`` before the
            first frame.
    """

    row_buckets = ROW_BUCKETS
    cache: CacheShape | None = None
    codec: CodecShape | None = None

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.frame_store: NDArray[Any] | None = None
        self._states: dict[int, StateT] = {}
        self._num_frames = [0] * num_slots

    @abstractmethod
    def start(self, prompt: Prompt, frames: Sequence[NDArray[Any]]) -> StateT:
        """Start a request, or continue after the frames that it has made; return its state."""

    @abstractmethod
    def append(self, state: StateT, piece: Piece) -> None:
        """Add text that has arrived."""

    @abstractmethod
    def next_frame(self, state: StateT) -> NDArray[Any] | None:
        """Make a frame of the common shape and type; ``None``: the request has finished."""

    def on_stream(self) -> AbstractContextManager[object]:
        return nullcontext()

    def launch(self, plan: StepPlan) -> PendingStep:
        for slot in plan.releases:
            del self._states[slot]
        for start in plan.starts:
            self._states[start.slot] = self.start(start.prompt, start.frames)
            self._num_frames[start.slot] = 0
            for made in start.frames:
                self._keep(start.slot, made)
        for append in plan.appends:
            self.append(self._states[append.slot], append.piece)
        frames, stopped = {}, set()
        for slot in plan.decode_slots:
            frame = self.next_frame(self._states[slot])
            if frame is None:
                stopped.add(slot)
            else:
                frames[slot] = frame
                self._keep(slot, frame)
        return Done(StepOutput(frames, frozenset(stopped)))

    def close(self) -> None:
        self._states.clear()

    def _keep(self, slot: int, frame: NDArray[Any]) -> None:
        if self.frame_store is None:
            shape = (self.num_slots, FRAME_STORE_FRAMES, *frame.shape)
            self.frame_store = np.zeros(shape, frame.dtype)
        self.frame_store[slot, self._num_frames[slot] % FRAME_STORE_FRAMES] = frame
        self._num_frames[slot] += 1
