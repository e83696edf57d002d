"""Attention over keys and values that are kept: per slot between steps, or for one frame only.

Each class is one way of keeping them. A transformer hands every layer's new queries, keys and
values to one of them, ``[rows, positions, heads, head_dim]`` each, and gets the attended values
in the shape of the queries.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor


class Attend(Protocol):
    """Keeps the new keys and values of a layer and attends to all that its rows hold."""

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor: ...


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


@dataclass(frozen=True, slots=True)
class PrefillAttention:
    """One slot's first positions at once, each seeing itself and those before it."""

    cache: SlotCache
    slot: int

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        num_positions = queries.shape[1]
        self.cache.tensor[layer, 0, self.slot, :num_positions] = keys[0]
        self.cache.tensor[layer, 1, self.slot, :num_positions] = values[0]
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
        places = torch.arange(num_visible, device=slots.device)
        self._mask = (places <= positions[:, None])[:, None, None]

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        kept_keys, kept_values = self._cache.tensor[layer]
        kept_keys[self._slots, self._positions] = keys[:, 0]
        kept_values[self._slots, self._positions] = values[:, 0]
        return _attend_one(
            queries, self._of_rows(kept_keys), self._of_rows(kept_values), self._mask
        )

    def _of_rows(self, kept: Tensor) -> Tensor:
        return kept[:, : self._num_visible].index_select(0, self._slots)


class FrameAttention:
    """A short causal run that starts empty and is forgotten: all rows go through it in lockstep."""

    def __init__(self, cache: SlotCache, num_rows: int) -> None:
        """Start empty in the first rows of ``cache``."""
        self._tensor = cache.tensor[:, :, :num_rows]
        self.num_positions = 0

    def advance(self, num_positions: int) -> None:
        """Note that a pass over all layers is complete."""
        self.num_positions += num_positions

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        start, end = self.num_positions, self.num_positions + keys.shape[1]
        kept_keys, kept_values = self._tensor[layer]
        kept_keys[:, start:end] = keys
        kept_values[:, start:end] = values
        if start == 0:
            return _causal(queries, keys, values)
        return _attend_one(queries, kept_keys[:, :end], kept_values[:, :end], None)


def _causal(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend causally among positions that are all new."""
    return F.scaled_dot_product_attention(
        queries.transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        is_causal=True,
        enable_gqa=True,
    ).transpose(1, 2)


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
    return attended.reshape(queries.shape)
