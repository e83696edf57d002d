"""Base of autoregressive models, which a family completes.

`ModelRunner` owns slots, blocks, buckets and graphs; the model owns its weights and the rest of a
slot's state on the device. A step must not wait for the device or read a tensor's values.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.nn import kernels
from antiphon.nn.attention import Attend, KVShape
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.sampler import seed_words

Codes: TypeAlias = NDArray[np.int64]
"""Frames on the host, ``[num_frames, frame_size]``, or one of them."""
FRAME, STOP, FAULT = 0, 1, 2
"""Outcome of a row in a step: a frame, the end of speech, or NaN."""
NO_ID = -1
"""Id of a position without input; see `IdPrompts`."""
RequestT = TypeVar("RequestT")
"""Host state of one request of a model."""


@dataclass(frozen=True, slots=True)
class SlotState:
    """The state of every slot, one row each; the last row is for padding.

    Attributes:
        positions: position of the next input, int64.
        frames: number of frames so far, int64.
        min_frames: frames before which the end is not drawn, int64.
        seeds: words of `antiphon.nn.sampler.seed_words`, int64, ``[num_rows, 2]``.
        frame_store: latest frames, frame k at ``k % FRAME_STORE_FRAMES``, int64,
            ``[num_rows, FRAME_STORE_FRAMES, frame_size]``.
    """

    positions: Tensor
    frames: Tensor
    min_frames: Tensor
    seeds: Tensor
    frame_store: Tensor

    @classmethod
    def zeros(cls, num_rows: int, frame_size: int, device: torch.device) -> "SlotState":
        def integers(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        return cls(
            positions=integers(num_rows),
            frames=integers(num_rows),
            min_frames=integers(num_rows),
            seeds=integers(num_rows, 2),
            frame_store=integers(num_rows, FRAME_STORE_FRAMES, frame_size),
        )

    def start(self, starts: "Sequence[SlotStart[Any]]", uploads: PackedUpload) -> None:
        """Start requests, with their latest frames if they are resumed."""
        index = np.array([each.slot for each in starts], np.int64)
        frames = np.array([each.next_frame for each in starts], np.int64)
        positions = frames + [each.prompt.num_positions for each in starts]
        first_ends = np.array([each.prompt.sampling.first_end for each in starts], np.int64)
        seeds = np.array([seed_words(each.prompt.seed) for each in starts], np.int64)
        uploads.write(self.positions, index, positions)
        uploads.write(self.frames, index, frames)
        uploads.write(self.min_frames, index, first_ends)
        uploads.write(self.seeds, index, seeds)
        places, latest = [], []
        for each in starts:
            if len(each.frames):
                numbers = np.arange(len(each.frames))[-FRAME_STORE_FRAMES:]
                places.append(each.slot * FRAME_STORE_FRAMES + numbers % FRAME_STORE_FRAMES)
                latest.append(each.frames[-FRAME_STORE_FRAMES:])
        if places:
            store = self.frame_store.flatten(0, 1)
            uploads.write(store, np.concatenate(places), np.concatenate(latest))

    def recent(self, index: Tensor, frames: Tensor, window: int, first: int = 0) -> Tensor:
        """Return the latest codes of group 0, int64 ``[num_rows, window]``, the latest one first.

        Args:
            frames: number of the next frame of each slot.
            window: number of codes, at most `FRAME_STORE_FRAMES`.
            first: number of the first frame that counts.

        Returns:
            The codes, -1 where there are none.
        """
        assert window <= FRAME_STORE_FRAMES, "older frames are not kept"
        numbers = frames[:, None] - torch.arange(1, window + 1, device=frames.device)
        codes = self.frame_store[index[:, None], numbers % FRAME_STORE_FRAMES, 0]
        return torch.where(numbers >= first, codes, -1)

    def advance(self, index: Tensor, positions: Tensor, frames: Tensor) -> None:
        """Advance the slots in ``index`` by one frame from ``positions`` and ``frames``.

        Padding stays at the beginning, where it costs least.
        """
        self.positions[index] = positions + 1
        self.frames[index] = frames + 1
        self.positions[-1].zero_()
        self.frames[-1].zero_()


@dataclass(frozen=True, slots=True, eq=False)
class SlotStart(Generic[RequestT]):
    """A request that enters a slot.

    Attributes:
        request: result of `ARModel.open`.
        frames: frames made before it lost a slot.
        next_frame: number, from 0, of the first frame that is made or replayed in the slot; those
            before it are prefilled as part of the prompt.
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


Spans: TypeAlias = Sequence[PromptSpan[RequestT]]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The rows of a step.

    Attributes:
        slots: slots, int64 ``[num_rows]``; rows that fill up a bucket have the last slot.
        states: inputs of the first layer, in the form of the model's `forward`.
        positions: positions of the inputs, int64 ``[num_rows]``.
        frames: numbers of the frames to make, int64 ``[num_rows]``.
    """

    slots: Tensor
    states: Any
    positions: Tensor
    frames: Tensor


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames on the device.

    Attributes:
        codes: codes, int64 ``[num_rows, frame_size + 1]``, with the outcome in the last column.
        scores: scores of the drawn codes, f32 ``[num_rows, frame_size]``.
    """

    codes: Tensor
    scores: Tensor

    @classmethod
    def empty(cls, num_rows: int, slots: SlotState) -> "Frames":
        store = slots.frame_store
        size = store.shape[2]
        codes = torch.empty(num_rows, size + 1, dtype=torch.int64, device=store.device)
        return cls(codes, torch.empty(num_rows, size, device=store.device))


class ARModel(ABC, Generic[RequestT]):
    """A model that `ModelRunner` calls, in the engine's thread and on the runner's stream.

    The input of a position is one row of numbers. Its prompts are complete; a model whose text
    arrives later overrides `append`. One with limits of its own overrides `observe`.

    Attributes:
        slots: state of every slot, and of one more for padding.
        like: a tensor of the KV cache's type and device.
        width: size of one position's input.
        uses_kernels: whether steps use GPU kernels, and so can be captured in graphs; by default,
            on a GPU.
        num_exact_rows: rows that a CPU computes together, each to the bit as if it were alone.
    """

    def __init__(
        self, like: Tensor, *, width: int, num_slots: int, frame_size: int, max_positions: int
    ) -> None:
        self.like = like
        self.width = width
        self.uses_kernels = kernels.run_on(like)
        self.num_exact_rows = 1
        self._device = like.device
        self._max_positions = max_positions
        self.slots = SlotState.zeros(num_slots + 1, frame_size, like.device)

    @property
    @abstractmethod
    def kv_shapes(self) -> tuple[KVShape, ...]:
        """KV shapes of the transformers, which share each slot's block numbers."""

    @abstractmethod
    def open(self, prompt: Prompt, frames: Codes) -> RequestT:
        """Return the host state of a request, with the frames that it made before."""

    def close(self, request: RequestT) -> None:
        """Free a request after its last frame was observed; no other state is kept of it here."""

    def observe(
        self, requests: Sequence[RequestT], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Record a frame of each request, in order; return which must be the last ones.

        None is here: the scheduler enforces the limits.

        Args:
            requests: different requests.
            frames: codes, ``[len(requests), frame_size]``.
            numbers: numbers of the frames, from 1.
        """
        return np.zeros(len(requests), np.bool_)

    @abstractmethod
    def start(self, starts: Sequence[SlotStart[RequestT]], uploads: PackedUpload) -> None:
        """Write the model's slot state of new requests; the runner writes `SlotState`.

        Device writes are added to ``uploads``, which is sent before the step is computed.
        """

    def append(self, pieces: Sequence[tuple[int, RequestT, Piece]], uploads: PackedUpload) -> None:
        """Add text for requests in slots, before the frames that need it."""
        raise AssertionError("its prompts are complete")

    @abstractmethod
    def embed_prompts(self, spans: Spans[RequestT]) -> Tensor:
        """Return the inputs of all positions of the spans, ``[num_positions, width]``."""

    @abstractmethod
    def sampling_shape(self, slots: Sequence[int]) -> Hashable:
        """Return the part of a graph's key that the step's sampling needs."""

    @abstractmethod
    def next_states(self, slots: Tensor) -> Tensor:
        """Return the next inputs of slots, ``[num_slots, width]``."""

    def embed(self, slots: Tensor) -> Inputs:
        """Return the inputs of a step: the fed-back frame and the text beside the next one."""
        last = self._max_positions - 1  # reached only by a step whose result is not used
        positions = self.slots.positions[slots].clamp(max=last)
        return Inputs(slots, self.next_states(slots)[:, None], positions, self.slots.frames[slots])

    def flat(self, inputs: Inputs) -> Tensor:
        """Return the states of `embed` in the form of `embed_prompts`, ``[num_rows, width]``."""
        states: Tensor = inputs.states
        return states[:, 0]

    @abstractmethod
    def forward(
        self, states: Any, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        """Return hidden states, ``[rows, positions, width]``.

        Args:
            states: result of `embed`; or of `embed_prompts`, with a leading axis of rows.
            slots: slots of the positions, int64 ``[rows, positions]``.
            positions: position numbers, int64 ``[rows, positions]``.
            attends: attention over each of `kv_shapes`.
        """

    @abstractmethod
    def sample(self, hidden: Tensor, inputs: Inputs, sampling: Any) -> Frames:
        """Draw a frame in every row, inner codebooks included; no outcome yet.

        Args:
            hidden: hidden states, ``[num_rows, width]``.
            sampling: result of `sampling_shape`.
        """

    @abstractmethod
    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        """Feed frames back: advance the slots by one position, and write each row's outcome.

        Args:
            frames: result of `sample`, or known frames.
            is_replay: whether frame store and sampling history hold these frames already.
        """

    def hold_end(self, logits: Tensor, is_end: Tensor, inputs: Inputs) -> Tensor:
        """Rule the end out of rows that have not made their minimum of frames.

        Args:
            logits: ``[num_rows, vocab_size]``.
            is_end: ids that end a request, bool ``[vocab_size]``.
        """
        is_early = inputs.frames < self.slots.min_frames[inputs.slots]
        return logits.masked_fill(is_end & is_early[:, None], -torch.inf)

    def finish(
        self, frames: Frames, inputs: Inputs, *, is_replay: bool, is_end: Tensor, is_finite: Tensor
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


@runtime_checkable
class IdPrompts(Protocol):
    """Optional protocol: embeds prompts within a pass, and its graph."""

    @property
    def num_id_tracks(self) -> int:
        """Number of ids of a position."""

    def prompt_ids(self, spans: Sequence[PromptSpan[Any]]) -> NDArray[np.int64]:
        """Return the ids of all positions of the spans, ``[num_id_tracks, num_positions]``."""

    def embed_ids(self, ids: Tensor) -> Tensor:
        """Return the inputs of positions, as `ARModel.embed_prompts` does.

        A position whose ids are all `NO_ID` is a row of the pass, or padding.
        """

    def warm_up(self) -> None:
        """Run what prompts need beside passes once, to compile it; no slot is in use."""


@runtime_checkable
class SupportsHiddenStates(Protocol):
    """Optional protocol: exports hidden states to the next stage."""

    def keep_states(self, spans: Sequence[PromptSpan[Any]], first: int) -> None:
        """Keep hidden states of prompts; called after each pass over any, outside of graphs.

        Args:
            spans: positions of the pass, laid end to end.
            first: index of the first of them in the pass, after rows that make a frame.
        """

    def hidden_states(
        self, slots: Sequence[int], requests: Sequence[Any], numbers: NDArray[np.int64]
    ) -> Mapping[int, tuple[int, Tensor]]:
        """Return the states exported beside the frames just drawn, without computing any.

        Returns:
            For each slot with exported states: number of the first position, and states of
            positions from there on, ``[num_positions, width]``. The tensors are read before
            anything is computed after this.
        """
