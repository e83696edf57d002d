"""Attention over keys and values that are kept: in blocks between steps, or for one frame only.

Each class is one way of keeping them. A transformer hands every layer's product, out of which
queries, keys and values are cut, to one of them, and gets the attended values,
``[rows, positions, num_heads * head_dim]``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.nn.attention_backends import AttentionBackend, attention_backend_of
from antiphon.nn.layers import Rotation
from antiphon.nn.qkv import QKVHeads

TILE_POSITIONS = 32
"""Most positions of one slot that are attended from together when prompts are read."""


class Attend(Protocol):
    """Keeps the new keys and values of a layer and attends to all that its rows hold."""

    def __call__(
        self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation
    ) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class KVShape:
    """What the keys and values of one transformer, a stack of layers, take."""

    num_layers: int
    num_kv_heads: int
    head_dim: int

    @property
    def position_size(self) -> int:
        """Numbers that one position takes."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class PagedCache:
    """Keys and values in blocks, and for each slot the blocks that it holds.

    Position p of a slot is at offset ``p % block_positions`` of the block at
    ``p // block_positions`` of its row of the table. The last block is a null block, which no
    slot owns: table entries that are not set yet point there.

    Attributes:
        tensor: ``[num_layers, 2, num_blocks + 1, block_positions, num_kv_heads, head_dim]``.
        table: int32, ``[num_slots, max_blocks]``.
    """

    tensor: Tensor
    table: Tensor
    backend: AttentionBackend = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", attention_backend_of(self.tensor))

    @classmethod
    def zeros(
        cls, shape: KVShape, num_blocks: int, block_positions: int, table: Tensor, like: Tensor
    ) -> "PagedCache":
        """Make an empty one beside a table, in the type and on the device of ``like``."""
        size = (num_blocks + 1, block_positions, shape.num_kv_heads, shape.head_dim)
        return cls(like.new_zeros(shape.num_layers, 2, *size), table)

    @property
    def block_positions(self) -> int:
        return self.tensor.shape[3]

    def places(self, slots: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return block and offset of positions, shapes as given."""
        size = self.block_positions
        return self.table[slots, positions // size].long(), positions % size

    def of_slots(self, layer: int, slots: Tensor, num_visible: int) -> tuple[Tensor, Tensor]:
        """Gather the first keys and values of slots, each ``[rows, positions, heads, head_dim]``.

        There are ``num_visible`` positions or a few more, up to the end of a block.
        """
        blocks = self.table[slots, : -(-num_visible // self.block_positions)].long()
        keys, values = self.tensor[layer]
        return keys[blocks].flatten(1, 2), values[blocks].flatten(1, 2)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Positions of any slots, one after the other, that are read in one pass.

    Attributes:
        slots: of each token, int64 ``[num_tokens]``.
        positions: of each token, likewise.
        tiles: of `cut_tiles`, int64 ``[num_tiles, 4]``; a tile of no tokens is passed over.
    """

    slots: Tensor
    positions: Tensor
    tiles: Tensor


def cut_tiles(pieces: Sequence[tuple[int, int, int]], first_token: int = 0) -> NDArray[np.int64]:
    """Cut pieces, ``(slot, first position, number of positions)`` token after token, into tiles.

    Returns:
        ``[num_tiles, 4]``: slot, first token, its position, and number of tokens.
    """
    tiles, token = [], first_token
    for slot, start, count in pieces:
        for done in range(0, count, TILE_POSITIONS):
            tiles.append((slot, token + done, start + done, min(TILE_POSITIONS, count - done)))
        token += count
    return np.array(tiles, np.int64).reshape(-1, 4)


class PrefillAttention:
    """New positions of some slots, each seeing itself and those before it."""

    def __init__(self, cache: PagedCache, tokens: Tokens) -> None:
        """Prepare a pass over tokens, which are one row."""
        self._cache = cache
        self._tokens = tokens

    def __call__(self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation) -> Tensor:
        new = (joined, heads, rotation)
        return self._cache.backend.prefill(self._cache, layer, new, self._tokens)


class DecodeAttention:
    """One new position for each of several slots."""

    def __init__(
        self, cache: PagedCache, slots: Tensor, positions: Tensor, num_visible: int
    ) -> None:
        """Prepare a step.

        Args:
            cache: of all slots.
            slots: int64, ``[num_rows]``.
            positions: of the new keys, likewise.
            num_visible: at least the largest position plus one.
        """
        self._cache = cache
        self._places = (slots, positions)
        self._num_visible = num_visible

    def __call__(self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation) -> Tensor:
        new = (joined, heads, rotation)
        return self._cache.backend.decode(self._cache, layer, new, self._places, self._num_visible)


class MixedAttention:
    """One pass over both: rows of a step of decoding, then positions of prompts.

    A row sees what its slot's prompt adds in the same pass, and is computed as `DecodeAttention`
    would.
    """

    def __init__(
        self, cache: PagedCache, tokens: Tokens, places: tuple[Tensor, Tensor], num_visible: int
    ) -> None:
        """Prepare a pass.

        Args:
            cache: of all slots.
            tokens: of the pass, the rows in front; tiles name all others.
            places: slots and positions of the rows, int64 ``[num_rows]``. There may be more than
                stand in front, of the slot for padding: tiles have precedence.
            num_visible: at least the largest position of a row plus one.
        """
        self._cache = cache
        self._tokens = tokens
        self._places = places
        self._num_visible = num_visible

    def __call__(self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation) -> Tensor:
        new = (joined, heads, rotation)
        backend = self._cache.backend
        return backend.mixed(self._cache, layer, new, self._tokens, self._places, self._num_visible)


@dataclass(frozen=True, slots=True)
class FrameCache:
    """Room for the keys and values of one frame in each row.

    Attributes:
        kept: ``[num_layers, 2, num_rows, num_positions, num_kv_heads, head_dim]``: a block a row.
        table: 0, 1, 2 and so on: the block of each row, int32 ``[num_rows, 1]``.
        rows: the same, int64 ``[num_rows]``.
        starts: each position as often as there are rows, int64 ``[num_positions, num_rows]``.
    """

    kept: Tensor
    table: Tensor
    rows: Tensor
    starts: Tensor
    backend: AttentionBackend = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", attention_backend_of(self.kept))

    @classmethod
    def zeros(cls, shape: KVShape, num_rows: int, num_positions: int, like: Tensor) -> "FrameCache":
        """Make an empty one, in the type and on the device of ``like``."""
        size = (num_rows, num_positions, shape.num_kv_heads, shape.head_dim)
        rows = torch.arange(num_rows, device=like.device)
        positions = torch.arange(num_positions, device=like.device)[:, None]
        return cls(
            kept=like.new_zeros(shape.num_layers, 2, *size),
            table=rows.int()[:, None].contiguous(),
            rows=rows,
            starts=positions.expand(-1, num_rows).contiguous(),
        )


class WholeAttention:
    """Each position sees all positions of its row, before and after it; nothing is kept."""

    def __call__(self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation) -> Tensor:
        return attention_backend_of(joined).whole((joined, heads, rotation))


class FrameAttention:
    """A short causal run that starts empty and is forgotten: all rows go through it in lockstep."""

    def __init__(self, cache: FrameCache, num_rows: int) -> None:
        """Start empty in the first rows of ``cache``."""
        self._cache = cache
        self._num_rows = num_rows
        self.num_positions = 0

    def advance(self, num_positions: int) -> None:
        """Note that a pass over all layers is complete."""
        self.num_positions += num_positions

    def __call__(self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation) -> Tensor:
        new, start = (joined, heads, rotation), self.num_positions
        return self._cache.backend.frame(self._cache, layer, new, self._num_rows, start)
