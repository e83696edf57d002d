"""Base of autoregressive models whose frame is one token."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.model_runner.ar_model import (
    FAULT,
    FRAME,
    STOP,
    ARModel,
    Frames,
    Inputs,
    PromptSpan,
    SlotStart,
)
from antiphon.nn.attention import Attend, KVShape
from antiphon.nn.cpu.packed_layers import rows_together
from antiphon.nn.device_writes import PackedUpload, upload
from antiphon.nn.layers import Linear
from antiphon.nn.transformer import Transformer


class TokenRequest(Protocol):
    """A request whose ids are known."""

    @property
    def ids(self) -> NDArray[np.int64]:
        """Ids of the prompt and of the tokens that it had made when it was opened."""


TokenRequestT = TypeVar("TokenRequestT", bound=TokenRequest)


class TokenModel(ARModel[TokenRequestT]):
    """The half of an `ARModel` that reads tokens; a family adds sampling.

    Attributes:
        like: embedding of ids, ``[vocab_size, hidden_size]``.
    """

    _head: Linear

    def __init__(
        self,
        transformer: Transformer,
        embedding: Tensor,
        *,
        num_slots: int,
        frame_size: int,
        max_positions: int,
    ) -> None:
        """Allocate the state of slots; ``frame_size``: numbers in a frame, the token first."""
        super().__init__(
            embedding,
            width=embedding.shape[1],
            num_slots=num_slots,
            frame_size=frame_size,
            max_positions=max_positions,
        )
        self._transformer = transformer
        self.num_exact_rows = rows_together(each.feed_forward for each in transformer.layers)
        # Next input id of each slot.
        self._next_ids = torch.zeros(num_slots + 1, dtype=torch.int64, device=self._device)

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        return (self._transformer.kv_shape,)

    def embed_prompts(self, spans: Sequence[PromptSpan[TokenRequestT]]) -> Tensor:
        ids = np.concatenate([span.request.ids[span.start : span.end] for span in spans])
        return F.embedding(upload(ids, self._device), self.like)

    def next_states(self, slots: Tensor) -> Tensor:
        return F.embedding(self._next_ids[slots], self.like)

    def forward(
        self, states: Tensor, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        return self._transformer(states, self._transformer.rope.at(positions), attends[0])

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of all tokens, ``[num_rows, vocab_size]``."""
        return self._head(hidden)

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: Any) -> Frames:
        logits = self.logits(hidden)
        if self.uses_kernels or not logits.is_cpu:
            return self.draw(logits, inputs, sampling)
        # Row by row: threads share operations on several rows, and round where a share ends.
        columns = (logits, inputs.slots, inputs.states, inputs.positions, inputs.frames)
        drawn = [
            self.draw(row, Inputs(slot, *rest), self.sampling_shape(slot.tolist()))
            for row, slot, *rest in zip(*(each.split(1) for each in columns), strict=True)
        ]
        pairs = ((each.codes, each.scores) for each in drawn)
        return Frames(*map(torch.cat, zip(*pairs, strict=True)))

    @abstractmethod
    def draw(self, logits: Tensor, inputs: Inputs, sampling: Any) -> Frames:
        """Draw tokens from logits; the other arguments are those of `sample`."""

    def begin_slots(
        self, starts: Sequence[SlotStart[TokenRequestT]], uploads: PackedUpload
    ) -> None:
        """Write the first input ids of new requests."""
        slots = np.array([start.slot for start in starts])
        ids = [start.request.ids[start.prompt.num_positions + start.next_frame] for start in starts]
        uploads.write(self._next_ids, slots, np.array(ids))

    def feed_back(self, frames: Frames, inputs: Inputs, *, is_replay: bool, is_end: Tensor) -> None:
        """Feed the tokens of frames back and end the step; ``is_end`` is a mask of all tokens."""
        if self.uses_kernels:
            self._end_step(frames, inputs, is_replay=is_replay, is_end=is_end)
            return
        tokens = frames.codes[:, 0]
        self._next_ids[inputs.slots] = tokens
        is_finite = frames.scores[:, 0].isfinite()
        self.finish(frames, inputs, is_replay=is_replay, is_end=is_end[tokens], is_finite=is_finite)

    def _end_step(self, frames: Frames, inputs: Inputs, *, is_replay: bool, is_end: Tensor) -> None:
        from antiphon.nn.kernels import token_step

        slots = self.slots
        token_step.end_step(
            inputs.slots,
            (inputs.positions, inputs.frames),
            (frames.codes, frames.scores),
            is_end,
            token_step.TokenSlots(self._next_ids, slots.positions, slots.frames, slots.frame_store),
            (FRAME, STOP, FAULT),
            is_replay=is_replay,
        )
