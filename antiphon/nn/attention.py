"""Attention over cached keys and values: paged between steps, or for the length of one frame.

Each class is one kind of cache. A transformer passes the joined query, key and value product of
each layer to one of them, and gets the attention output, ``[rows, positions, num_heads *
head_dim]``.
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
"""Most positions of one slot in a prefill tile."""


class Attend(Protocol):
    """Writes the new keys and values of a layer and attends to all positions of its rows."""

    def __call__(
        self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation
    ) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class KVShape:
    """Size of the keys and values of one transformer, a stack of layers."""

    num_layers: int
    num_kv_heads: int
    head_dim: int

    @property
    def position_size(self) -> int:
        """Values per position, in all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class PagedCache:
    """Paged KV cache with a block table per slot.

    Position p of a slot is at offset ``p % block_positions`` of the block at ``p //
    block_positions`` of its row of the table. The last block is a null block, which no slot owns:
    unset table entries point there.

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
        """Return an empty cache for a table, in the type and on the device of ``like``."""
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

        Returns ``num_visible`` positions, rounded up to the end of a block.
        """
        blocks = self.table[slots, : -(-num_visible // self.block_positions)].long()
        keys, values = self.tensor[layer]
        return keys[blocks].flatten(1, 2), values[blocks].flatten(1, 2)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Positions of any slots, read in one prefill pass, one after the other.

    Attributes:
        slots: slot of each token, int64 ``[num_tokens]``.
        positions: position of each token, int64 ``[num_tokens]``.
        tiles: tiles made by `cut_tiles`, int64 ``[num_tiles, 4]``; a tile of no tokens is skipped.
    """

    slots: Tensor
    positions: Tensor
    tiles: Tensor


def cut_tiles(pieces: Sequence[tuple[int, int, int]], first_token: int = 0) -> NDArray[np.int64]:
    """Cut pieces, ``(slot, first position, number of positions)`` in token order, into tiles.

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
    """Causal attention of new prompt positions."""

    def __init__(self, cache: PagedCache, tokens: Tokens) -> None:
        """Prepare a pass over tokens, which form one row."""
        self._cache = cache
        self._tokens = tokens

    def __call__(self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation) -> Tensor:
        new = (joined, heads, rotation)
        return self._cache.backend.prefill(self._cache, layer, new, self._tokens)


class DecodeAttention:
    """Decode attention: one new position for each of several slots."""

    def __init__(
        self, cache: PagedCache, slots: Tensor, positions: Tensor, num_visible: int
    ) -> None:
        """Prepare a step.

        Args:
            slots: int64, ``[num_rows]``.
            positions: positions of the new keys, int64 ``[num_rows]``.
            num_visible: upper bound of the rows' positions, plus one.
        """
        self._cache = cache
        self._places = (slots, positions)
        self._num_visible = num_visible

    def __call__(self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation) -> Tensor:
        new = (joined, heads, rotation)
        return self._cache.backend.decode(self._cache, layer, new, self._places, self._num_visible)


class MixedAttention:
    """Mixed pass: decode rows, then prompt positions.

    A row attends to what its slot's prompt adds in the same pass, and is computed as by
    `DecodeAttention`.
    """

    def __init__(
        self, cache: PagedCache, tokens: Tokens, places: tuple[Tensor, Tensor], num_visible: int
    ) -> None:
        """Prepare a pass.

        Args:
            tokens: tokens of the pass, decode rows first; tiles cover all others.
            places: slots and positions of the rows, int64 ``[num_rows]``. Rows beyond the decode
                rows use the padding slot: tiles take precedence.
            num_visible: upper bound of the rows' positions, plus one.
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
    """Keys and values of one frame in each row.

    Attributes:
        kept: ``[num_layers, 2, num_rows, num_positions, num_kv_heads, head_dim]``, one block per
            row.
        table: block of each row (0, 1, 2, ...), int32 ``[num_rows, 1]``.
        rows: row numbers, int64 ``[num_rows]``.
        starts: each position repeated for all rows, int64 ``[num_positions, num_rows]``.
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
        """Return an empty cache, in the type and on the device of ``like``."""
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
    """Bidirectional attention among the positions of a row, without a cache."""

    def __call__(self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation) -> Tensor:
        return attention_backend_of(joined).whole((joined, heads, rotation))


class FrameAttention:
    """Causal attention within one frame, starting empty; all rows advance in lockstep."""

    def __init__(self, cache: FrameCache, num_rows: int) -> None:
        """Start with the first rows of ``cache``, empty."""
        self._cache = cache
        self._num_rows = num_rows
        self.num_positions = 0

    def advance(self, num_positions: int) -> None:
        """Note that a pass over all layers is complete."""
        self.num_positions += num_positions

    def __call__(self, layer: int, joined: Tensor, heads: QKVHeads, rotation: Rotation) -> Tensor:
        new, start = (joined, heads, rotation), self.num_positions
        return self._cache.backend.frame(self._cache, layer, new, self._num_rows, start)
