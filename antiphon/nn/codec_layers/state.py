"""State of a streaming decoder: one row of numbers and one position per slot.

Layers reserve fields of the row in a `StateLayout` when they are built, and read and update them
through a `History` when they run. `SlotHistory` serves the slots of a `DecoderState`;
`EmptyHistory` serves a pass over whole streams.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

_ALIGNMENT = 64  # numbers; keeps every field of a row aligned for vector loads in any dtype


@dataclass(frozen=True, slots=True)
class StateField:
    """Field of a slot's row, starting at ``offset``."""

    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class StateLayout:
    """Allocates the fields of a row while a decoder is built."""

    def __init__(self) -> None:
        self.row_size = 0

    def add(self, *shape: int) -> StateField:
        """Reserve a field in every slot's row."""
        field = StateField(self.row_size, shape)
        self.row_size += -(-field.size // _ALIGNMENT) * _ALIGNMENT
        return field


@dataclass(frozen=True, slots=True)
class DecoderState:
    """Slots of a decoder, updated in place and never reallocated.

    Attributes:
        memory: ``[num_slots, row_size]`` in the decoder's dtype; zeros mean a fresh stream.
        position: int64 ``[num_slots]``, frames decoded so far.
    """

    memory: Tensor
    position: Tensor

    @property
    def num_slots(self) -> int:
        return self.memory.shape[0]

    def view(self, field: StateField) -> Tensor:
        """Return a view ``[num_slots, *field.shape]``."""
        columns = self.memory[:, field.offset : field.offset + field.size]
        return columns.view(self.num_slots, *field.shape)

    def reset(self, slot: int) -> None:
        """Clear a slot for a new stream."""
        self.memory[slot].zero_()
        self.position[slot].zero_()

    def gather(self, slots: Tensor) -> "DecoderState":
        """Return a copy of slots, int64 ``[k]``, as a smaller state."""
        return DecoderState(self.memory[slots], self.position[slots])

    def scatter(self, slots: Tensor, rows: "DecoderState") -> None:
        """Write back the result of `gather`."""
        self.memory.index_copy_(0, slots, rows.memory)
        self.position.index_copy_(0, slots, rows.position)


@dataclass(frozen=True, slots=True)
class DoubleBufferedState:
    """Slots of a decoder whose kernels read one copy of columns and write the other.

    Updated in place and never reallocated.

    Attributes:
        memory: ``[num_slots, row_size]``, two copies of columns; zeros mean a fresh stream.
        turns: current copy of the columns, int32 ``[num_slots]``.
        positions: int64 ``[num_slots]``, frames decoded so far.
    """

    memory: Tensor
    turns: Tensor
    positions: Tensor

    def reset(self, slot: int) -> None:
        """Clear a slot for a new stream."""
        for tensor in (self.memory, self.turns, self.positions):
            tensor[slot].zero_()

    def snapshot(self, slot: int) -> tuple[Tensor, ...]:
        return tuple(each[slot].clone() for each in (self.memory, self.turns, self.positions))

    def restore(self, slot: int, snapshot: tuple[Tensor, ...]) -> None:
        for tensor, value in zip((self.memory, self.turns, self.positions), snapshot, strict=True):
            tensor[slot].copy_(value)


class ColumnHistory(Protocol):
    """Columns before a pass, for layers without attention."""

    def prepend(self, x: Tensor, field: StateField) -> Tensor:
        """Prepend the preceding columns to ``x``, ``[B, t, C]``; ``field`` is ``(k, C)``."""


class History(ColumnHistory, Protocol):
    """State before the frames of a pass."""

    @property
    def positions(self) -> Tensor:
        """Absolute positions of the pass's frames, int64 ``[B or 1, n]``."""

    @property
    def mask(self) -> Tensor | None:
        """Keys that each frame attends to, bool ``[B or 1, 1, n, num_keys]``; ``None``: causal."""

    def append_keys_values(self, keys_values: Tensor, field: StateField | None) -> Tensor:
        """Append a layer's keys and values to the preceding ones.

        Args:
            keys_values: ``[B, n, heads, head_dim]``.
            field: ``(num_keys, heads, head_dim)``; ``None`` if the layer never streams.

        Returns:
            Keys and values in the order of `mask`, ``[B, num_keys, heads, head_dim]``.
        """


class EmptyHistory:
    """History of a pass over whole streams.

    Args:
        window: keys that a frame attends to, itself included; ``None``: all keys before it.
    """

    def __init__(self, num_frames: int, window: int | None, device: torch.device) -> None:
        self.positions = torch.arange(num_frames, device=device)[None]
        self.mask = None if window is None else _mask(window, self.positions, self.positions)

    def prepend(self, x: Tensor, field: StateField) -> Tensor:
        return pad(x, (0, 0, field.shape[0], 0))

    def append_keys_values(self, keys_values: Tensor, field: StateField | None) -> Tensor:
        return keys_values


class RowHistory:
    """History of all slots of a state, which advance together and have no keys."""

    def __init__(self, state: DecoderState) -> None:
        self._state = state

    def prepend(self, x: Tensor, field: StateField) -> Tensor:
        kept = self._state.view(field)
        joined = torch.cat((kept, x), dim=1)
        kept.copy_(joined[:, -field.shape[0] :])
        return joined


class SlotHistory(RowHistory):
    """History of all slots of a state, with keys and values."""

    def __init__(self, state: DecoderState, num_frames: int, window: int, num_keys: int) -> None:
        """Read ``state`` before a pass over its slots.

        Args:
            num_frames: frames of the pass, at most ``num_keys - window + 1``.
            window: keys that a frame attends to, itself included.
            num_keys: size of the rings of keys; position ``p`` is at ``p % num_keys``.
        """
        super().__init__(state)
        device = state.position.device
        self._num_frames = num_frames
        self.positions = state.position[:, None] + torch.arange(num_frames, device=device)
        self._ring_index = (self.positions % num_keys)[:, :, None, None]
        newest = self.positions[:, -1:]
        held = newest - (newest - torch.arange(num_keys, device=device)) % num_keys
        self.mask = _mask(window, self.positions, held)

    def append_keys_values(self, keys_values: Tensor, field: StateField | None) -> Tensor:
        assert field is not None, "the layer was built without a state"
        ring = self._state.view(field)
        ring.scatter_(1, self._ring_index.expand_as(keys_values), keys_values)
        return ring

    def advance(self) -> None:
        """Advance the slots, as the last call of a pass."""
        self._state.position.add_(self._num_frames)


def _mask(window: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Return the mask ``[B, 1, n, k]`` of keys no later than a query and inside its window."""
    distance = queries[:, :, None] - keys[:, None, :]
    return ((distance >= 0) & (distance < window) & (keys >= 0)[:, None, :])[:, None]
