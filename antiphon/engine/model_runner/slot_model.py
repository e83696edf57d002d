"""What autoregressive models share whatever they read: a row a slot, and how a step ends."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

from antiphon.contracts.prompt import Piece
from antiphon.engine.model_runner.ar_model import FAULT, FRAME, STOP, Frames, Inputs
from antiphon.engine.model_runner.slot_state import SlotState
from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.nn import kernels
from antiphon.nn.packed_upload import PackedUpload

SlotRequestT = TypeVar("SlotRequestT")


class SlotModel(Generic[SlotRequestT]):
    """The part of an `ARModel` that is the same for all whose input is one row of numbers.

    Its prompts are complete; a model whose text arrives later takes it in by its own `append`.

    Attributes:
        slots: state of every slot, and of one more for padding.
        like: a tensor of the type and on the device of keys and values.
        width: numbers of one position's input.
        uses_kernels: whether it is on a GPU.
    """

    def __init__(
        self, like: Tensor, *, width: int, num_slots: int, frame_size: int, max_positions: int
    ) -> None:
        """Make the state of slots.

        Args:
            like: see the class.
            width: likewise.
            num_slots: requests that can run at once.
            frame_size: numbers of a frame.
            max_positions: of a request, prompt and frames together.
        """
        self.like = like
        self.width = width
        self.uses_kernels = kernels.run_on(like)
        self._device = like.device
        self._max_positions = max_positions
        self.slots = SlotState.zeros(num_slots + 1, frame_size, like.device)

    def close(self, request: SlotRequestT) -> None:
        """Nothing is kept of it elsewhere."""

    def append(
        self, pieces: Sequence[tuple[int, SlotRequestT, Piece]], uploads: PackedUpload
    ) -> None:
        raise AssertionError("its prompts are complete")

    def next_states(self, slots: Tensor) -> Tensor:
        """Return what slots read next, ``[num_slots, width]``."""
        raise NotImplementedError

    def embed(self, slots: Tensor) -> Inputs:
        last = self._max_positions - 1  # reached only by a step whose result is not used
        positions = self.slots.positions[slots].clamp(max=last)
        return Inputs(slots, self.next_states(slots)[:, None], positions, self.slots.frames[slots])

    def flat(self, inputs: Inputs) -> Tensor:
        states: Tensor = inputs.states
        return states[:, 0]

    def finish(
        self,
        frames: Frames,
        inputs: Inputs,
        *,
        is_replay: bool,
        is_end: Tensor,
        is_finite: Tensor,
    ) -> None:
        """Keep the frames of a step, move their slots one position on, and say how each row ended.

        Args:
            frames: of the step; their outcomes are written.
            inputs: likewise.
            is_replay: see `ARModel.commit`.
            is_end: whether a frame says that there is no more, bool ``[num_rows]``.
            is_finite: whether what was computed of it is numbers, likewise.
        """
        if not is_replay:
            places = inputs.frames % FRAME_STORE_FRAMES
            self.slots.frame_store[inputs.slots, places] = frames.codes[:, :-1]
        self.slots.advance(inputs.slots, inputs.positions, inputs.frames)
        outcome = torch.where(is_end, STOP, FRAME)
        frames.codes[:, -1] = torch.where(is_finite, outcome, FAULT)
