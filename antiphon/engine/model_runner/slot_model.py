"""Base of autoregressive models: slot state and the end of a step."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import Piece
from antiphon.engine.model_runner.ar_model import (
    FAULT,
    FRAME,
    STOP,
    Codes,
    Frames,
    Inputs,
    SlotState,
)
from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.nn import kernels
from antiphon.nn.device_writes import PackedUpload

SlotRequestT = TypeVar("SlotRequestT")


class SlotModel(Generic[SlotRequestT]):
    """The common part of every `ARModel` whose input is one row of numbers.

    Its prompts are complete; a model whose text arrives later overrides `append`. One with limits
    of its own overrides `observe`.

    Attributes:
        slots: state of every slot, and of one more for padding.
        like: a tensor of the KV cache's type and device.
        width: size of one position's input.
        uses_kernels: whether steps use GPU kernels; by default, on a GPU.
    """

    def __init__(
        self, like: Tensor, *, width: int, num_slots: int, frame_size: int, max_positions: int
    ) -> None:
        self.like = like
        self.width = width
        self.uses_kernels = kernels.run_on(like)
        self._device = like.device
        self._max_positions = max_positions
        self.slots = SlotState.zeros(num_slots + 1, frame_size, like.device)

    def observe(
        self, requests: Sequence[SlotRequestT], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return that no frame is a last one: the scheduler enforces the limits."""
        return np.zeros(len(requests), np.bool_)

    def close(self, request: SlotRequestT) -> None:
        """Do nothing: no other state is kept of a request."""

    def append(
        self, pieces: Sequence[tuple[int, SlotRequestT, Piece]], uploads: PackedUpload
    ) -> None:
        raise AssertionError("its prompts are complete")

    def next_states(self, slots: Tensor) -> Tensor:
        """Return the next inputs of slots, ``[num_slots, width]``."""
        raise NotImplementedError

    def embed(self, slots: Tensor) -> Inputs:
        last = self._max_positions - 1  # reached only by a step whose result is not used
        positions = self.slots.positions[slots].clamp(max=last)
        return Inputs(slots, self.next_states(slots)[:, None], positions, self.slots.frames[slots])

    def flat(self, inputs: Inputs) -> Tensor:
        states: Tensor = inputs.states
        return states[:, 0]

    def hold_end(self, logits: Tensor, is_end: Tensor, inputs: Inputs) -> Tensor:
        """Rule the end out of rows that have not made their minimum of frames.

        Args:
            logits: ``[num_rows, vocab_size]``.
            is_end: ids that end a request, bool ``[vocab_size]``.
        """
        is_early = inputs.frames < self.slots.min_frames[inputs.slots]
        return logits.masked_fill(is_end & is_early[:, None], -torch.inf)

    def finish(
        self,
        frames: Frames,
        inputs: Inputs,
        *,
        is_replay: bool,
        is_end: Tensor,
        is_finite: Tensor,
    ) -> None:
        """Store the frames of a step, advance their slots, and write the outcome of each row.

        Args:
            frames: frames of the step, whose outcomes are written.
            is_replay: whether frame store and sampling history hold these frames already.
            is_end: frames that are the end of speech, bool ``[num_rows]``.
            is_finite: frames without NaN, bool ``[num_rows]``.
        """
        if not is_replay:
            places = inputs.frames % FRAME_STORE_FRAMES
            self.slots.frame_store[inputs.slots, places] = frames.codes[:, :-1]
        self.slots.advance(inputs.slots, inputs.positions, inputs.frames)
        outcome = torch.where(is_end, STOP, FRAME)
        frames.codes[:, -1] = torch.where(is_finite, outcome, FAULT)
