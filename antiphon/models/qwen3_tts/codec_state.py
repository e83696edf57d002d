"""What a decoder remembers of each stream: one row of numbers and one position per slot.

Layers ask a `StateLayout` for parts of the row when they are built, and a `Past` for what is in
them when they run. There are two pasts: `SlotPast` reads and advances the slots of a
`DecoderState`; `NoPast` belongs to a pass over whole streams, before which there was nothing.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

_ALIGNMENT = 64  # numbers; keeps every part of a row aligned for vector loads in any dtype


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a slot's row: numbers of some shape from ``offset`` on."""

    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class StateLayout:
    """Deals out the parts of a row, at build time."""

    def __init__(self) -> None:
        self.row_size = 0

    def add(self, *shape: int) -> Part:
        """Reserve a part in every slot's row."""
        part = Part(self.row_size, shape)
        self.row_size += -(-part.size // _ALIGNMENT) * _ALIGNMENT
        return part


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

    def part(self, part: Part) -> Tensor:
        """Return a view ``[num_slots, *part.shape]``."""
        columns = self.memory[:, part.offset : part.offset + part.size]
        return columns.view(self.num_slots, *part.shape)

    def reset(self, slot: int) -> None:
        """Make a slot as good as fresh."""
        self.memory[slot].zero_()
        self.position[slot].zero_()

    def gather(self, slots: Tensor) -> "DecoderState":
        """Return a copy of some slots, int64 ``[k]``, as a smaller state."""
        return DecoderState(self.memory[slots], self.position[slots])

    def scatter(self, slots: Tensor, rows: "DecoderState") -> None:
        """Put back what `gather` returned."""
        self.memory.index_copy_(0, slots, rows.memory)
        self.position.index_copy_(0, slots, rows.position)


class Past(Protocol):
    """What came before the frames of one pass."""

    @property
    def positions(self) -> Tensor:
        """Absolute positions of the pass's frames, int64 ``[B or 1, n]``."""
        ...

    @property
    def visible(self) -> Tensor:
        """Which keys each frame attends to, bool ``[B or 1, 1, n, num_keys]``."""
        ...

    def join(self, x: Tensor, part: Part) -> Tensor:
        """Put what came before ``x``, ``[B, t, C]``, in front of it; ``part`` is ``(k, C)``."""
        ...

    def recall(self, keys_values: Tensor, part: Part) -> Tensor:
        """Add a layer's keys and values to those before.

        Args:
            keys_values: ``[B, n, heads, head_dim]``.
            part: ``(num_keys, heads, head_dim)``.

        Returns:
            What ``visible`` speaks of, ``[B, num_keys, heads, head_dim]``.
        """
        ...


class NoPast:
    """The past of a pass over whole streams."""

    def __init__(self, num_frames: int, window: int, device: torch.device) -> None:
        self.positions = torch.arange(num_frames, device=device)[None]
        self.visible = _visible(window, self.positions, self.positions)

    def join(self, x: Tensor, part: Part) -> Tensor:
        return pad(x, (0, 0, part.shape[0], 0))

    def recall(self, keys_values: Tensor, part: Part) -> Tensor:
        return keys_values


class SlotPast:
    """The past that a state holds for each of its slots; inactive slots do not move."""

    def __init__(
        self, state: DecoderState, active: Tensor, num_frames: int, window: int, num_keys: int
    ) -> None:
        """Look at ``state`` before a pass over its slots.

        Args:
            state: its slots are the pass's rows.
            active: bool ``[num_slots]``.
            num_frames: of the pass, at most ``num_keys - window + 1``.
            window: keys that a frame sees, itself included.
            num_keys: size of the rings of keys; position ``p`` lives at ``p % num_keys``.
        """
        device = state.position.device
        self._state = state
        self._active = active
        self._num_frames = num_frames
        self.positions = state.position[:, None] + torch.arange(num_frames, device=device)
        self._ring_index = (self.positions % num_keys)[:, :, None, None]
        newest = self.positions[:, -1:]
        held = newest - (newest - torch.arange(num_keys, device=device)) % num_keys
        self.visible = _visible(window, self.positions, held)

    def join(self, x: Tensor, part: Part) -> Tensor:
        kept = self._state.part(part)
        joined = torch.cat((kept, x), dim=1)
        newest = joined[:, -part.shape[0] :]
        torch.where(self._active[:, None, None], newest, kept, out=kept)
        return joined

    def recall(self, keys_values: Tensor, part: Part) -> Tensor:
        ring = self._state.part(part)
        index = self._ring_index.expand_as(keys_values)
        active = self._active[:, None, None, None]
        ring.scatter_(1, index, torch.where(active, keys_values, ring.gather(1, index)))
        return ring

    def advance(self) -> None:
        """Move the active slots on; the last thing that a pass does."""
        self._state.position.add_(self._num_frames * self._active)


def _visible(window: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Return the mask ``[B, 1, n, k]`` of keys no later than a query and inside its window."""
    distance = queries[:, :, None] - keys[:, None, :]
    return ((distance >= 0) & (distance < window) & (keys >= 0)[:, None, :])[:, None]
