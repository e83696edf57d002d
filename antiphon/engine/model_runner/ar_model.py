"""What a family implements to be served as an autoregressive model, and what crosses there.

`ModelRunner` owns slots, blocks, buckets and graphs; the model owns its weights and what else a
slot of it holds on the device. Nothing in a step may wait for the device or read a tensor's values.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.engine.model_runner.slot_state import SlotState
from antiphon.nn.attention import Attend, KVShape
from antiphon.nn.packed_upload import PackedUpload

Codes: TypeAlias = NDArray[np.int64]
"""Frames on the host, ``[num_frames, frame_size]``, or one of them."""

FRAME, STOP, FAULT = 0, 1, 2
"""Outcome of a row in a step: a frame, the end of speech, or NaN in what was computed."""
NO_ID = -1
"""All ids of a position that reads nothing; see `IdPrompts`."""

RequestT = TypeVar("RequestT")
"""What a model keeps on the host of one request."""


@dataclass(frozen=True, slots=True, eq=False)
class SlotStart(Generic[RequestT]):
    """A request that gets a slot.

    Attributes:
        request: of `ARModel.open`.
        frames: that it made before it lost a slot.
        next_frame: number, from 0, of the frame that the slot is stepped or replayed for first;
            those before it are prefilled as part of the prompt.
    """

    slot: int
    prompt: Prompt
    request: RequestT
    frames: Codes
    next_frame: int


@dataclass(frozen=True, slots=True, eq=False)
class PromptSpan(Generic[RequestT]):
    """Positions ``start`` to ``end - 1`` of a slot, to be prefilled; those before are computed."""

    slot: int
    request: RequestT
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Inputs:
    """The rows of a step.

    Attributes:
        slots: int64 ``[num_rows]``; rows that fill up a bucket have the last slot, for padding.
        states: inputs of the first layer, in the form that the model's `forward` takes.
        positions: of the inputs, int64 ``[num_rows]``.
        frames: numbers of the frames that they make, likewise.
    """

    slots: Tensor
    states: Any
    positions: Tensor
    frames: Tensor


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames on the device.

    Attributes:
        codes: int64 ``[num_rows, frame_size + 1]``, the outcome in the last column.
        scores: of the codes as they were drawn, f32 ``[num_rows, frame_size]``.
    """

    codes: Tensor
    scores: Tensor

    @classmethod
    def empty(cls, num_rows: int, slots: SlotState) -> "Frames":
        """Make room for a frame in each row."""
        store = slots.frame_store
        size = store.shape[2]
        codes = torch.empty(num_rows, size + 1, dtype=torch.int64, device=store.device)
        return cls(codes, torch.empty(num_rows, size, device=store.device))


class ARModel(Protocol[RequestT]):
    """Talks to `ModelRunner` only, in the engine's thread and on the runner's stream."""

    @property
    def slots(self) -> SlotState:
        """State of every slot, and of one more that rows for padding use."""
        ...

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        """Stacks of keys and values that share each slot's blocks; a stack for a transformer."""
        ...

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of keys and values."""
        ...

    @property
    def width(self) -> int:
        """Numbers of one position's input."""
        ...

    @property
    def uses_kernels(self) -> bool:
        """Whether steps run on a GPU's kernels, and so can be captured in graphs."""
        ...

    def open(self, prompt: Prompt, frames: Codes) -> RequestT:
        """Take a request in on the host, with the frames that it made before."""
        ...

    def close(self, request: RequestT) -> None:
        """Let go of a request of `open`, of which no frame is left to be observed."""
        ...

    def observe(
        self, requests: Sequence[RequestT], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Take in a frame of each request, in order; return which have to be the last ones.

        Args:
            requests: all different.
            frames: ``[len(requests), frame_size]``.
            numbers: of the frames, from 1.
        """
        ...

    def start(self, starts: Sequence[SlotStart[RequestT]], uploads: PackedUpload) -> None:
        """Write what slots hold of new requests; `SlotState` is the runner's to write.

        What goes to the device is added to ``uploads``, which is sent before the step is computed.
        """
        ...

    def append(self, pieces: Sequence[tuple[int, RequestT, Piece]], uploads: PackedUpload) -> None:
        """Take in text that has arrived for requests in slots, before the frames that need it."""
        ...

    def embed_prompts(self, spans: Sequence[PromptSpan[RequestT]]) -> Tensor:
        """Return the inputs of all positions of the spans, ``[num_positions, width]``."""
        ...

    def sampling_shape(self, slots: Sequence[int]) -> Hashable:
        """Return what the host must decide of a step's sampling: part of a graph's key."""
        ...

    def embed(self, slots: Tensor) -> Inputs:
        """Return the inputs of a step: the fed-back frame, with the text beside the next."""
        ...

    def flat(self, inputs: Inputs) -> Tensor:
        """Return the states of `embed` in the form of `embed_prompts`, ``[num_rows, width]``."""
        ...

    def forward(
        self, states: Any, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        """Return hidden states, ``[rows, positions, width]``.

        Args:
            states: of `embed`; or of `embed_prompts`, with a row in front.
            slots: that the positions are of, int64 ``[rows, positions]``.
            positions: likewise.
            attends: one for each of `kv_shapes`.
        """
        ...

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: Any) -> Frames:
        """Draw a frame in every row, inner codebooks included; no outcome yet.

        Args:
            hidden: of each row, ``[num_rows, width]``.
            inputs: of the step.
            sampling: of `sampling_shape`.
        """
        ...

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        """Feed frames back: move the slots one position on, and write each row's outcome.

        Args:
            frames: of `sample`, or known ones.
            inputs: of the step.
            is_replay: whether frame store and sampling history hold these frames already.
        """
        ...


@runtime_checkable
class IdPrompts(Protocol):
    """What a model is too if its prompts are embedded within a pass, and its graph."""

    @property
    def num_id_tracks(self) -> int:
        """Ids of a position."""
        ...

    def prompt_ids(self, spans: Sequence[PromptSpan[Any]]) -> NDArray[np.int64]:
        """Return what all positions of the spans are, ``[num_id_tracks, num_positions]``."""
        ...

    def embed_ids(self, ids: Tensor) -> Tensor:
        """Return what `ARModel.embed_prompts` does for positions that are these ids.

        Where all of them are `NO_ID`, nothing is: rows of the pass, and padding.
        """
        ...

    def warm_up(self) -> None:
        """Launch what prompts take beside passes, so that it is compiled; no slot is in use."""
        ...


@runtime_checkable
class SupportsHiddenStates(Protocol):
    """Optional protocol: exports hidden states to the next stage."""

    def keep_states(self, spans: Sequence[PromptSpan[Any]], first: int) -> None:
        """Keep hidden states of prompts; called after each pass over any, outside of graphs.

        Args:
            spans: positions of the pass, laid end to end.
            first: index of the first of them in the pass, after rows that make a frame.
        """
        ...

    def hidden_states(
        self, slots: Sequence[int], requests: Sequence[Any], numbers: NDArray[np.int64]
    ) -> Mapping[int, tuple[int, Tensor]]:
        """Return the states exported beside the frames just drawn, without computing any.

        Args:
            slots: slots that drew a frame.
            requests: requests in the slots, from `ARModel.open`.
            numbers: numbers of the frames, from 1.

        Returns:
            For each slot with exported states: number of the first position, and states of
            positions from there on, ``[num_positions, width]``. The tensors are read before
            anything is computed after this.
        """
        ...
