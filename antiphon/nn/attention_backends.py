"""Attention over cached keys and values by a backend: PyTorch, or Triton kernels.

A transformer passes the joined query, key and value product of each layer to an `Attend` of one
kind, such as that of `prefill_attention`, and gets the attention output, ``[rows, positions,
num_heads * head_dim]``.

The PyTorch backend reads exactly what the kernels read: nothing beyond a row's own positions, so
that stale values of another request do not matter, not even NaN.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn import kernels
from antiphon.nn.attention import Attend, FrameCache, PagedCache, QKVHeads, Tokens
from antiphon.nn.cpu.cache_spans import CacheSpan
from antiphon.nn.cpu.exact_rows import joined_rows
from antiphon.nn.layers import Rotation

if TYPE_CHECKING:
    from antiphon.nn.kernels.paged_common import Projected  # it needs Triton


NewPositions = tuple[Tensor, QKVHeads, Rotation]
"""Joined query, key and value product of a layer, its heads, and the rotation."""
Places = tuple[Tensor, Tensor]
"""Slots and positions of rows, int64 ``[num_rows]``."""
Rows = tuple[Places, int]
"""Places, and a bound of the positions, plus one."""


class TorchAttention:
    """PyTorch operations of one pass; slots, positions and tiles are read on the host."""

    def __init__(self) -> None:
        self._step: tuple[tuple[Tensor, Tensor], list[CacheSpan]] | None = None  # of all layers

    def prefill(self, cache: PagedCache, tokens: Tokens, layer: int, *new: *NewPositions) -> Tensor:
        queries = self._keep(cache, layer, new, tokens)
        attended = torch.zeros_like(queries[0]).flatten(1)
        return self._attend_tiles(cache, layer, queries, tokens, attended)

    def decode(self, cache: PagedCache, rows: Rows, layer: int, *new: *NewPositions) -> Tensor:
        (joined, heads, rotation), (slots, positions) = new, rows[0]
        queries, keys, values = heads(joined, rotation)
        if self._step is None:
            self._step = cache.places(slots, positions), CacheSpan.of_rows(cache, slots, positions)
        (blocks, offsets), spans = self._step
        cache.tensor[layer, 0, blocks, offsets] = keys[:, 0]
        cache.tensor[layer, 1, blocks, offsets] = values[:, 0]
        kept = zip(torch.split(queries, 1), spans, strict=True)
        return joined_rows(_attend_one, ((row, *span.read(cache, layer)) for row, span in kept))

    def mixed(
        self, cache: PagedCache, tokens: Tokens, rows: Rows, layer: int, *new: *NewPositions
    ) -> Tensor:
        """Attend from all rows, then from all prompt tiles, which overwrite them."""
        joined, heads, rotation = new
        queries, num_rows = self._keep(cache, layer, new, tokens), len(rows[0][0])
        parts = (rotation.cosines, rotation.sines)
        turned = Rotation(*(part[0, :num_rows, None] for part in parts))
        first = (joined[0, :num_rows, None], heads, turned)
        attended = torch.zeros_like(queries[0]).flatten(1)
        attended[:num_rows] = self.decode(cache, rows, layer, *first)[:, 0]
        return self._attend_tiles(cache, layer, queries, tokens, attended)

    def frame(
        self, cache: FrameCache, num_rows: int, start: int, layer: int, *new: *NewPositions
    ) -> Tensor:
        joined, heads, rotation = new
        queries, keys, values = heads(joined, rotation)
        kept = cache.kept[layer][:, :num_rows, : start + joined.shape[1]]
        kept[0, :, start:], kept[1, :, start:] = keys, values
        attend = partial(_attend, is_causal=True) if start == 0 else _attend_one
        return joined_rows(attend, zip(*(each.split(1) for each in (queries, *kept)), strict=True))

    def whole(self, *new: *NewPositions) -> Tensor:
        joined, heads, rotation = new
        return _attend(*heads(joined, rotation))

    def _keep(self, cache: PagedCache, layer: int, new: NewPositions, tokens: Tokens) -> Tensor:
        """Write keys and values into their blocks; return queries, ``[1, tokens, heads, size]``."""
        joined, heads, rotation = new
        queries, keys, values = heads(joined, rotation)
        blocks, offsets = cache.places(tokens.slots, tokens.positions)
        cache.tensor[layer, 0, blocks, offsets] = keys[0]
        cache.tensor[layer, 1, blocks, offsets] = values[0]
        return queries

    def _attend_tiles(
        self, cache: PagedCache, layer: int, queries: Tensor, tokens: Tokens, attended: Tensor
    ) -> Tensor:
        """Write the tiles' attention output into ``[tokens, width]``; return it as one row."""
        for slot, token, start, count in tokens.tiles.tolist():
            if not count:  # an empty tile is padding
                continue
            place, end = slice(token, token + count), start + count
            keys, values = CacheSpan.of(cache, slot, end).read(cache, layer)
            positions = torch.arange(end, device=queries.device)
            is_seen = positions <= positions[start:, None]
            attended[place] = _attend(queries[:, place], keys, values, attn_mask=is_seen)[0]
        return attended[None]


class TritonAttention:
    """Kernels that norm, rotate, write and attend; CUDA graphs can capture them."""

    def prefill(self, cache: PagedCache, tokens: Tokens, layer: int, *new: *NewPositions) -> Tensor:
        from antiphon.nn.kernels import paged_prefill

        kept = cache.tensor[layer]
        places = (tokens.slots, tokens.positions)
        queries = paged_prefill.keep(_projected(*new), kept, cache.table, places)
        attended = paged_prefill.attend_tiles(queries, kept, cache.table, tokens.tiles)
        return attended.view(*new[0].shape[:2], -1)

    def decode(self, cache: PagedCache, rows: Rows, layer: int, *new: *NewPositions) -> Tensor:
        from antiphon.nn.kernels import paged_attention

        projected, kept = _projected(*new), cache.tensor[layer]
        attended = paged_attention.decode(projected, kept, cache.table, *rows, loads_early=True)
        return attended.view(*new[0].shape[:2], -1)

    def mixed(
        self, cache: PagedCache, tokens: Tokens, rows: Rows, layer: int, *new: *NewPositions
    ) -> Tensor:
        """Attend from all rows, then from all prompt tiles, which overwrite them."""
        from antiphon.nn.kernels import paged_attention, paged_prefill

        projected, kept, table = _projected(*new), cache.tensor[layer], cache.table
        queries = paged_prefill.keep(projected, kept, table, (tokens.slots, tokens.positions))
        attended = torch.empty_like(queries)
        num_rows = len(rows[0][0])
        first = replace(projected, joined=projected.joined[:num_rows])
        paged_attention.decode(first, kept, table, *rows, attended[:num_rows].flatten(1))
        paged_prefill.attend_tiles(queries, kept, table, tokens.tiles, attended)
        return attended.view(*new[0].shape[:2], -1)

    def frame(
        self, cache: FrameCache, num_rows: int, start: int, layer: int, *new: *NewPositions
    ) -> Tensor:
        from antiphon.nn.kernels import paged_attention

        joined = new[0]
        places = (cache.rows[:num_rows], cache.starts[start, :num_rows])
        attended = paged_attention.decode(
            _projected(*new), cache.kept[layer], cache.table, places, start + joined.shape[1]
        )
        return attended.view(*joined.shape[:2], -1)

    def whole(self, *new: *NewPositions) -> Tensor:
        from antiphon.nn.kernels import whole_attention

        num_positions = new[0].shape[1]
        is_small = new[1].shape.head_dim < whole_attention.MIN_HEAD_DIM
        if is_small or num_positions > whole_attention.MAX_POSITIONS:
            return TorchAttention().whole(*new)
        attended = whole_attention.attend_whole(_projected(*new), num_positions)
        return attended.view(*new[0].shape[:2], -1)


_TRITON = TritonAttention()


def attention_backend_of(tensor: Tensor) -> TorchAttention | TritonAttention:
    """Return the attention backend of one pass for the device of a tensor."""
    return _TRITON if kernels.run_on(tensor) else TorchAttention()


def prefill_attention(cache: PagedCache, tokens: Tokens) -> Attend:
    """Return the causal attention of new prompt positions, which form one row."""
    return partial(attention_backend_of(cache.tensor).prefill, cache, tokens)


def decode_attention(cache: PagedCache, places: Places, num_visible: int) -> Attend:
    """Return the attention of one new position for each of several slots.

    Args:
        places: slots and positions of the new keys, int64 ``[num_rows]``.
        num_visible: upper bound of the rows' positions, plus one.
    """
    return partial(attention_backend_of(cache.tensor).decode, cache, (places, num_visible))


def mixed_attention(cache: PagedCache, tokens: Tokens, places: Places, num_visible: int) -> Attend:
    """Return the attention of a mixed pass: decode rows, then prompt positions.

    A row attends to what its slot's prompt adds in the same pass, and is computed as by
    `decode_attention`, whose further arguments these are.

    Args:
        tokens: tokens of the pass, decode rows first; tiles cover all others.
        places: rows beyond the decode rows use the padding slot: tiles take precedence.
    """
    return partial(attention_backend_of(cache.tensor).mixed, cache, tokens, (places, num_visible))


def whole_attention(layer: int, *new: *NewPositions) -> Tensor:
    """Attend among all positions of a row, without a cache; an `Attend`."""
    return attention_backend_of(new[0]).whole(*new)


def frame_attention(cache: FrameCache, num_rows: int, start: int) -> Attend:
    """Return the causal attention within one frame of its positions from ``start`` on.

    All rows advance in lockstep, in the first rows of ``cache``.
    """
    return partial(attention_backend_of(cache.kept).frame, cache, num_rows, start)


def _projected(joined: Tensor, heads: QKVHeads, rotation: Rotation) -> "Projected":
    """Return a layer's product as the kernels read it."""
    from antiphon.nn.kernels.paged_common import Projected

    shape, (query_norm, key_norm) = heads.shape, (heads.query_norm, heads.key_norm)
    norms: tuple[Tensor | None, Tensor | None, float] = (None, None, 0.0)
    if query_norm is not None and key_norm is not None:
        norms = (query_norm.weight, key_norm.weight, query_norm.epsilon)
    dim = shape.head_dim
    turned = (rotation.cosines.reshape(-1, dim), rotation.sines.reshape(-1, dim))
    return Projected(joined.flatten(0, 1).contiguous(), shape, norms, turned)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, **how: Any) -> Tensor:
    """Attend from all positions; ``how`` are arguments of PyTorch's function."""
    first, second, third = (each.transpose(1, 2) for each in (queries, keys, values))
    attended = F.scaled_dot_product_attention(first, second, third, enable_gqa=True, **how)
    return attended.transpose(1, 2).flatten(2)


def _attend_one(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend from one position of a row; heads that share a key are its query positions."""
    grouped = queries.view(1, keys.shape[2], -1, keys.shape[3])
    attended = F.scaled_dot_product_attention(grouped, keys.transpose(1, 2), values.transpose(1, 2))
    return attended.reshape(1, 1, -1)
