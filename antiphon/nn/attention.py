"""Heads of attention, and caches of keys and values: paged, or for the length of one frame."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.nn.layers import Linear, RMSNorm, Rotation

TILE_POSITIONS = 32
"""Most positions of one slot in a prefill tile."""


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Shape of a layer's query, key and value heads."""

    num_heads: int
    num_kv_heads: int
    head_dim: int

    def reordered(self, joined: Linear, order: Sequence[int]) -> Linear:
        """Permute the dimensions of the query and key heads."""
        if [*order] == [*range(self.head_dim)]:
            return joined
        num_turned = self.num_heads + self.num_kv_heads
        heads = torch.arange(num_turned)[:, None] * self.head_dim + torch.tensor(order)
        rest = torch.arange(num_turned * self.head_dim, len(joined.weight))
        index = torch.cat((heads.flatten(), rest)).to(joined.weight.device)
        bias = None if joined.bias is None else joined.bias[index]
        return replace(joined, weight=joined.weight[index], bias=bias)

    @property
    def group(self) -> int:
        """Query heads that share a key."""
        return self.num_heads // self.num_kv_heads


@dataclass(frozen=True, slots=True)
class QKVHeads:
    """Heads with optional norms of queries and keys, per head."""

    shape: HeadShape
    query_norm: RMSNorm | None = None
    key_norm: RMSNorm | None = None
    joined_norm: RMSNorm | None = field(init=False, repr=False, compare=False)
    """Both norms, with weights of each head."""

    def __post_init__(self) -> None:
        norm, shape = None, self.shape
        if self.query_norm is not None and self.key_norm is not None:
            parts = ((self.query_norm, shape.num_heads), (self.key_norm, shape.num_kv_heads))
            weight = torch.cat([each.weight.expand(count, -1) for each, count in parts])
            norm = RMSNorm(weight, self.query_norm.epsilon)
        object.__setattr__(self, "joined_norm", norm)

    def __call__(self, joined: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, normed and rotated, and values, ``[..., heads, head_dim]``."""
        sizes = [self.shape.num_heads, self.shape.num_kv_heads]
        heads = joined.view(*joined.shape[:-1], -1, self.shape.head_dim)
        turned, values = torch.split(heads, [sum(sizes), sizes[1]], dim=-2)
        if self.joined_norm is not None:
            turned = self.joined_norm(turned)
        queries, keys = torch.split(rotation(turned), sizes, dim=-2)
        return queries, keys, values


Attend: TypeAlias = Callable[[int, Tensor, QKVHeads, Rotation], Tensor]
"""Writes a layer's new keys and values, given its number, the joined product, its heads and the
rotation; and attends to all positions of its rows."""


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

    @classmethod
    def zeros(
        cls, shape: KVShape, num_blocks: int, block_positions: int, table: Tensor, like: Tensor
    ) -> "PagedCache":
        """Return an empty cache for a table, in the type and on the device of ``like``.

        On a CPU, memory of blocks that were never written is not touched: no step reads them.
        """
        size = (num_blocks + 1, block_positions, shape.num_kv_heads, shape.head_dim)
        make = like.new_empty if like.is_cpu else like.new_zeros
        return cls(make(shape.num_layers, 2, *size), table)

    @property
    def block_positions(self) -> int:
        return self.tensor.shape[3]

    def places(self, slots: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return block and offset of positions, shapes as given."""
        size = self.block_positions
        return self.table[slots, positions // size].long(), positions % size


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
