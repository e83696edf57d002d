"""What the device holds of every request besides keys and values: one row a slot."""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.engine.plan import FRAME_STORE_FRAMES


@dataclass(frozen=True, slots=True)
class SlotState:
    """The state of every slot, one row each; the last row is for padding and nobody's.

    Attributes:
        pending: codec side of the next input, ``[num_rows, hidden_size]``.
        text: text id beside each frame's input, int64, ``[num_rows, max_positions]``.
        positions: of the next input, int64.
        frames: made so far, int64.
        seeds: see `antiphon.nn.sampler.seed_words`, int64, ``[num_rows, 2]``.
        has_occurred: group-0 codes said so far, bool, ``[num_rows, vocab_size]``.
        frame_store: the latest frames, frame k at ``k % FRAME_STORE_FRAMES``, int64,
            ``[num_rows, FRAME_STORE_FRAMES, num_groups]``.
    """

    pending: Tensor
    text: Tensor
    positions: Tensor
    frames: Tensor
    seeds: Tensor
    has_occurred: Tensor
    frame_store: Tensor

    @classmethod
    def zeros(
        cls, num_rows: int, max_positions: int, vocab_size: int, num_groups: int, table: Tensor
    ) -> "SlotState":
        """Make the state of idle slots beside the embedding ``table``."""

        def integers(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=table.device)

        return cls(
            pending=table.new_zeros(num_rows, table.shape[1]),
            text=integers(num_rows, max_positions),
            positions=integers(num_rows),
            frames=integers(num_rows),
            seeds=integers(num_rows, 2),
            has_occurred=table.new_zeros(num_rows, vocab_size, dtype=torch.bool),
            frame_store=integers(num_rows, FRAME_STORE_FRAMES, num_groups),
        )

    @property
    def num_bytes(self) -> int:
        parts = (self.pending, self.text, self.has_occurred, self.frame_store)
        return sum(part.nbytes for part in parts)  # the others are next to nothing

    def advance(self, index: Tensor, positions: Tensor, frames: Tensor, codes: Tensor) -> None:
        """Note a frame of the slots in ``index``, which were at ``positions`` and ``frames``.

        Padding stays at the beginning, where it costs least.
        """
        self.keep(index, frames, codes)
        self.positions[index] = positions + 1
        self.frames[index] = frames + 1
        self.positions[-1].zero_()
        self.frames[-1].zero_()

    def keep(self, index: Tensor, frames: Tensor, codes: Tensor) -> None:
        """Keep frames by slot and number, codes ``[num_rows, num_groups]``."""
        said = torch.ones((), dtype=torch.bool, device=codes.device)
        self.has_occurred.index_put_((index, codes[:, 0]), said)
        self.frame_store[index, frames % FRAME_STORE_FRAMES] = codes
