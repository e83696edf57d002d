"""Attention over keys and values that are kept: per slot between steps, or for one frame only.

Each class is one way of keeping them. A transformer hands every layer's product, out of which
queries, keys and values are cut, to one of them, and gets the attended values,
``[rows, positions, num_heads * head_dim]``.

On a GPU all of them are one pair of kernels: every new position, wherever it comes from, is
written to its place in a cache and attends to its slot up to itself.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.engine import kernels
from antiphon.engine.heads import NormedHeads
from antiphon.engine.layers import Rotation


class Attend(Protocol):
    """Keeps the new keys and values of a layer and attends to all that its rows hold."""

    def __call__(
        self, layer: int, joined: Tensor, heads: NormedHeads, rotation: Rotation
    ) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class SlotCache:
    """Keys and values of every slot, each slot's positions in one run.

    Attributes:
        tensor: shape ``[num_layers, 2, num_slots, max_positions, num_kv_heads, head_dim]``.
    """

    tensor: Tensor

    @classmethod
    def zeros(cls, shape: tuple[int, int, int, int, int], like: Tensor) -> "SlotCache":
        """Make an empty one, in the type and on the device of ``like``.

        ``shape`` is ``(num_layers, num_slots, max_positions, num_kv_heads, head_dim)``. What has
        not been written must be numbers: it is masked by weights of zero.
        """
        num_layers, *rest = shape
        return cls(like.new_zeros(num_layers, 2, *rest))

    def clear(self, slot: int) -> None:
        """Overwrite a slot with zeros: needed only if it may hold what is not a number."""
        self.tensor[:, :, slot].zero_()


class PrefillAttention:
    """The first positions of some slots at once, each seeing itself and those before it."""

    def __init__(self, cache: SlotCache, slots: Tensor, num_positions: int) -> None:
        """Prepare a pass.

        Args:
            cache: of all slots.
            slots: shape ``[num_rows]``.
            num_positions: of each row; a row that has fewer is padded, and what its padding
                leaves in the cache is overwritten before it is seen.
        """
        self._cache = cache
        self._slots = slots[:, None].expand(-1, num_positions).contiguous()
        positions = torch.arange(num_positions, device=slots.device)
        self._positions = positions.expand(len(slots), -1).contiguous()

    def __call__(
        self, layer: int, joined: Tensor, heads: NormedHeads, rotation: Rotation
    ) -> Tensor:
        kept = self._cache.tensor[layer]
        if kernels.run_on(joined):
            places = (self._slots, self._positions)
            return _keep_and_attend(joined, heads, rotation, kept, places, joined.shape[1])
        queries, keys, values = heads(joined, rotation)
        kept[0][self._slots, self._positions] = keys
        kept[1][self._slots, self._positions] = values
        return _causal(queries, keys, values)


class DecodeAttention:
    """One new position for each of several slots."""

    def __init__(
        self, cache: SlotCache, slots: Tensor, positions: Tensor, num_visible: int
    ) -> None:
        """Prepare a step.

        Args:
            cache: of all slots.
            slots: shape ``[num_rows]``.
            positions: of the new keys, shape ``[num_rows]``.
            num_visible: at least the largest position plus one.
        """
        self._cache = cache
        self._slots = slots
        self._positions = positions
        self._num_visible = num_visible
        self._mask: Tensor | None = None

    def __call__(
        self, layer: int, joined: Tensor, heads: NormedHeads, rotation: Rotation
    ) -> Tensor:
        kept = self._cache.tensor[layer]
        if kernels.run_on(joined):
            places = (self._slots, self._positions)
            return _keep_and_attend(joined, heads, rotation, kept, places, self._num_visible)
        queries, keys, values = heads(joined, rotation)
        kept_keys, kept_values = kept
        kept_keys[self._slots, self._positions] = keys[:, 0]
        kept_values[self._slots, self._positions] = values[:, 0]
        if self._mask is None:
            visible = torch.arange(self._num_visible, device=self._slots.device)
            self._mask = (visible <= self._positions[:, None])[:, None, None]
        return _attend_one(
            queries, self._of_rows(kept_keys), self._of_rows(kept_values), self._mask
        )

    def _of_rows(self, kept: Tensor) -> Tensor:
        return kept[:, : self._num_visible].index_select(0, self._slots)


@dataclass(frozen=True, slots=True)
class FrameCache:
    """Room for the keys and values of one frame in each row.

    Attributes:
        kept: whose slots are the rows.
        slots: 0, 1, 2 and so on, as often as there are positions; ``[num_positions, num_rows]``.
        positions: how often each slot was named before; same shape.
    """

    kept: SlotCache
    slots: Tensor
    positions: Tensor

    @classmethod
    def zeros(cls, shape: tuple[int, int, int, int, int], like: Tensor) -> "FrameCache":
        """Make an empty one; see `SlotCache.zeros`."""
        _, num_rows, num_positions, *_ = shape
        slots = torch.arange(num_rows, device=like.device).expand(num_positions, -1)
        positions = torch.arange(num_positions, device=like.device)[:, None].expand(-1, num_rows)
        return cls(SlotCache.zeros(shape, like), slots.contiguous(), positions.contiguous())

    def places(self, num_rows: int, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Return slots and positions of a pass, position after position within each row."""
        slots = self.slots[start:end, :num_rows].t().contiguous()
        return slots, self.positions[start:end, :num_rows].t().contiguous()


class FrameAttention:
    """A short causal run that starts empty and is forgotten: all rows go through it in lockstep."""

    def __init__(self, cache: FrameCache, num_rows: int) -> None:
        """Start empty in the first rows of ``cache``."""
        self._cache = cache
        self._num_rows = num_rows
        self._places: tuple[Tensor, Tensor] | None = None
        self.num_positions = 0

    def advance(self, num_positions: int) -> None:
        """Note that a pass over all layers is complete."""
        self.num_positions += num_positions
        self._places = None

    def __call__(
        self, layer: int, joined: Tensor, heads: NormedHeads, rotation: Rotation
    ) -> Tensor:
        start, end = self.num_positions, self.num_positions + joined.shape[1]
        kept = self._cache.kept.tensor[layer]
        if kernels.run_on(joined):
            if self._places is None:
                self._places = self._cache.places(self._num_rows, start, end)
            return _keep_and_attend(joined, heads, rotation, kept, self._places, end)
        queries, keys, values = heads(joined, rotation)
        kept_keys, kept_values = kept[:, : self._num_rows]
        kept_keys[:, start:end] = keys
        kept_values[:, start:end] = values
        if start == 0:
            return _causal(queries, keys, values)
        return _attend_one(queries, kept_keys[:, :end], kept_values[:, :end], None)


def _keep_and_attend(
    joined: Tensor,
    heads: NormedHeads,
    rotation: Rotation,
    kept: Tensor,
    places: tuple[Tensor, Tensor],
    num_visible: int,
) -> Tensor:
    """Do what the PyTorch lines of all classes do, for tokens at any places."""
    from antiphon.engine.kernels import slot_attention

    shape = heads.shape
    queries = slot_attention.norm_rotate_keep(
        joined.flatten(0, 1),
        slot_attention.HeadShape(shape.num_heads, shape.num_kv_heads, shape.head_dim),
        (heads.query_norm.weight, heads.key_norm.weight, heads.query_norm.epsilon),
        (rotation.cosines.view(-1, shape.head_dim), rotation.sines.view(-1, shape.head_dim)),
        kept,
        places,
    )
    attended = slot_attention.attend(queries, kept, places, num_visible)
    return attended.view(*joined.shape[:2], -1)


def _causal(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend causally among positions that are all new."""
    attended = F.scaled_dot_product_attention(
        queries.transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        is_causal=True,
        enable_gqa=True,
    )
    return attended.transpose(1, 2).flatten(2)


def _attend_one(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Attend with one query position a row; the heads that share a key are its query positions."""
    num_rows, _, num_heads, head_dim = queries.shape
    num_kv_heads = keys.shape[2]
    attended = F.scaled_dot_product_attention(
        queries.view(num_rows, num_kv_heads, num_heads // num_kv_heads, head_dim),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=mask,
    )
    return attended.reshape(num_rows, 1, num_heads * head_dim)
