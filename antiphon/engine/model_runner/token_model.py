"""What autoregressive models share whose frame is one token, which is read next by its id."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.model_runner.ar_model import Frames, Inputs, PromptSpan, SlotStart
from antiphon.engine.model_runner.slot_state import SlotState
from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.models.base import Piece
from antiphon.nn import kernels
from antiphon.nn.attention import KVShape
from antiphon.nn.host_device import PackedUpload, upload
from antiphon.nn.transformer import Transformer


class TokenRequest(Protocol):
    """A request whose ids are known."""

    @property
    def ids(self) -> NDArray[np.int64]:
        """Of its prompt, and of the tokens that it had made when it was opened."""
        ...


TokenRequestT = TypeVar("TokenRequestT", bound=TokenRequest)


class TokenModel(Generic[TokenRequestT]):
    """The half of an `ARModel` that reads tokens: a family adds how they are drawn.

    Attributes:
        slots: state of every slot, and of one more for padding.
        like: the embedding of ids, ``[vocab_size, hidden_size]``.
        width: the hidden size.
        uses_kernels: whether it is on a GPU.
    """

    def __init__(
        self,
        transformer: Transformer,
        embedding: Tensor,
        *,
        num_slots: int,
        frame_size: int,
        max_positions: int,
    ) -> None:
        """Make the state of slots.

        Args:
            transformer: of the model.
            embedding: of ids, ``[vocab_size, hidden_size]``.
            num_slots: requests that can run at once.
            frame_size: numbers of a frame, the token first.
            max_positions: of a request, prompt and answer together.
        """
        self._transformer = transformer
        self.like = embedding
        self.width = embedding.shape[1]
        self.uses_kernels = kernels.run_on(embedding)
        self._device = embedding.device
        self._max_positions = max_positions
        self.slots = SlotState.zeros(num_slots + 1, frame_size, self._device)
        # The id that each slot reads next.
        self._next_ids = torch.zeros(num_slots + 1, dtype=torch.int64, device=self._device)

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        return (self._transformer.kv_shape,)

    def close(self, request: TokenRequestT) -> None:
        """Nothing is kept of it elsewhere."""

    def append(
        self, pieces: Sequence[tuple[int, TokenRequestT, Piece]], uploads: PackedUpload
    ) -> None:
        raise AssertionError("its prompts are complete")

    def embed_prompts(self, spans: Sequence[PromptSpan[TokenRequestT]]) -> Tensor:
        ids = np.concatenate([each.request.ids[each.start : each.end] for each in spans])
        return F.embedding(upload(ids, self._device), self.like)

    def embed(self, slots: Tensor) -> Inputs:
        last = self._max_positions - 1  # reached only by a step whose result is not used
        positions = self.slots.positions[slots].clamp(max=last)
        states = F.embedding(self._next_ids[slots], self.like)[:, None]
        return Inputs(slots, states, positions, self.slots.frames[slots])

    def flat(self, inputs: Inputs) -> Tensor:
        states: Tensor = inputs.states
        return states[:, 0]

    def begin_slots(
        self, starts: Sequence[SlotStart[TokenRequestT]], uploads: PackedUpload
    ) -> None:
        """Note what slots read first of new requests."""
        numbers = [
            (each.slot, each.request.ids[each.prompt.num_positions + each.next_frame])
            for each in starts
        ]
        uploads.add(self._begin, np.array(numbers, np.int64).T)

    def _begin(self, numbers: Tensor) -> None:
        """Write the ids that slots read next: slots, then ids."""
        self._next_ids[numbers[0]] = numbers[1]

    def feed_back(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        """Let the tokens of frames be read next, and keep the frames."""
        codes = frames.codes[:, :-1]
        self._next_ids[inputs.slots] = codes[:, 0]
        if not is_replay:
            self.slots.frame_store[inputs.slots, inputs.frames % FRAME_STORE_FRAMES] = codes
        self.slots.advance(inputs.slots, inputs.positions, inputs.frames)
