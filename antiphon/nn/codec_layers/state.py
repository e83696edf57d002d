"""What a streaming decoder keeps of each stream: one row of numbers and one position per slot.

Layers reserve fields of the row in a `StateLayout` when they are built, and read and update them
through a `History` when they run. `SlotHistory` is that of the slots of a `DecoderState`;
`EmptyHistory` belongs to a pass over whole streams, which nothing precedes.
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
    """Numbers of some shape in a slot's row, from ``offset`` on."""

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
    """The slots of a decoder; updated in place, never reallocated.

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
        """Make a slot that of a fresh stream."""
        self.memory[slot].zero_()
        self.position[slot].zero_()

    def gather(self, slots: Tensor) -> "DecoderState":
        """Return a copy of some slots, int64 ``[k]``, as a smaller state."""
        return DecoderState(self.memory[slots], self.position[slots])

    def scatter(self, slots: Tensor, rows: "DecoderState") -> None:
        """Put back what `gather` returned."""
        self.memory.index_copy_(0, slots, rows.memory)
        self.position.index_copy_(0, slots, rows.position)


@dataclass(frozen=True, slots=True)
class DoubleBufferedState:
    """The slots of a decoder whose kernels write a second copy of what they read.

    Updated in place, never reallocated.

    Attributes:
        memory: ``[num_slots, row_size]``, two copies of columns; zeros mean a fresh stream.
        turns: which of two copies of columns is current, int32 ``[num_slots]``.
        positions: int64 ``[num_slots]``, frames decoded so far.
    """

    memory: Tensor
    turns: Tensor
    positions: Tensor

    def reset(self, slot: int) -> None:
        """Make a slot that of a fresh stream."""
        for tensor in (self.memory, self.turns, self.positions):
            tensor[slot].zero_()

    def snapshot(self, slot: int) -> tuple[Tensor, ...]:
        """Return a copy of what a slot holds."""
        return tuple(each[slot].clone() for each in (self.memory, self.turns, self.positions))

    def restore(self, slot: int, snapshot: tuple[Tensor, ...]) -> None:
        """Overwrite a slot by a snapshot."""
        for tensor, value in zip((self.memory, self.turns, self.positions), snapshot, strict=True):
            tensor[slot].copy_(value)


class ColumnHistory(Protocol):
    """What precedes the columns of one pass, for layers that do not attend."""

    def prepend(self, x: Tensor, field: StateField) -> Tensor:
        """Put the columns before ``x``, ``[B, t, C]``, in front of it; ``field`` is ``(k, C)``."""
        ...


class History(ColumnHistory, Protocol):
    """What precedes the frames of one pass."""

    @property
    def positions(self) -> Tensor:
        """Absolute positions of the pass's frames, int64 ``[B or 1, n]``."""
        ...

    @property
    def mask(self) -> Tensor | None:
        """Keys that each frame attends to, bool ``[B or 1, 1, n, num_keys]``; ``None``: causal."""
        ...

    def append_keys_values(self, keys_values: Tensor, field: StateField | None) -> Tensor:
        """Add a layer's keys and values to those before.

        Args:
            keys_values: ``[B, n, heads, head_dim]``.
            field: ``(num_keys, heads, head_dim)``; ``None`` if the layer never streams.

        Returns:
            The keys and values that `mask` is of, ``[B, num_keys, heads, head_dim]``.
        """
        ...


class EmptyHistory:
    """Of a pass over whole streams.

    Args:
        num_frames: of the pass.
        window: keys that a frame attends to, itself included; ``None`` is all before it.
        device: of the decoder.
    """

    def __init__(self, num_frames: int, window: int | None, device: torch.device) -> None:
        self.positions = torch.arange(num_frames, device=device)[None]
        self.mask = None if window is None else _mask(window, self.positions, self.positions)

    def prepend(self, x: Tensor, field: StateField) -> Tensor:
        return pad(x, (0, 0, field.shape[0], 0))

    def append_keys_values(self, keys_values: Tensor, field: StateField | None) -> Tensor:
        return keys_values


class RowHistory:
    """Of all slots of a state, which advance together and have no keys."""

    def __init__(self, state: DecoderState) -> None:
        self._state = state

    def prepend(self, x: Tensor, field: StateField) -> Tensor:
        kept = self._state.view(field)
        joined = torch.cat((kept, x), dim=1)
        kept.copy_(joined[:, -field.shape[0] :])
        return joined


class SlotHistory:
    """Of the slots of a state; inactive slots do not change."""

    def __init__(
        self, state: DecoderState, active: Tensor, num_frames: int, window: int, num_keys: int
    ) -> None:
        """Read ``state`` before a pass over its slots.

        Args:
            state: its slots are the pass's rows.
            active: bool ``[num_slots]``.
            num_frames: of the pass, at most ``num_keys - window + 1``.
            window: keys that a frame attends to, itself included.
            num_keys: size of the rings of keys; position ``p`` is at ``p % num_keys``.
        """
        device = state.position.device
        self._state = state
        self._active = active
        self._num_frames = num_frames
        self.positions = state.position[:, None] + torch.arange(num_frames, device=device)
        self._ring_index = (self.positions % num_keys)[:, :, None, None]
        newest = self.positions[:, -1:]
        held = newest - (newest - torch.arange(num_keys, device=device)) % num_keys
        self.mask = _mask(window, self.positions, held)

    def prepend(self, x: Tensor, field: StateField) -> Tensor:
        kept = self._state.view(field)
        joined = torch.cat((kept, x), dim=1)
        newest = joined[:, -field.shape[0] :]
        torch.where(self._active[:, None, None], newest, kept, out=kept)
        return joined

    def append_keys_values(self, keys_values: Tensor, field: StateField | None) -> Tensor:
        assert field is not None, "the layer was built without a state"
        ring = self._state.view(field)
        index = self._ring_index.expand_as(keys_values)
        active = self._active[:, None, None, None]
        ring.scatter_(1, index, torch.where(active, keys_values, ring.gather(1, index)))
        return ring

    def advance(self) -> None:
        """Advance the active slots; the last call of a pass."""
        self._state.position.add_(self._num_frames * self._active)


def _mask(window: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Return the mask ``[B, 1, n, k]`` of keys no later than a query and inside its window."""
    distance = queries[:, :, None] - keys[:, None, :]
    return ((distance >= 0) & (distance < window) & (keys >= 0)[:, None, :])[:, None]
