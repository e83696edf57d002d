"""Heads of a joined query, key and value product: split, norm and rotation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from antiphon.nn.layers import Linear, RMSNorm, Rotation


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

    def split(self, joined: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split ``[..., (num_heads + 2 * num_kv_heads) * head_dim]`` into queries, keys, values."""
        heads = joined.view(*joined.shape[:-1], -1, self.head_dim)
        sizes = [self.num_heads, self.num_kv_heads, self.num_kv_heads]
        queries, keys, values = torch.split(heads, sizes, dim=-2)
        return queries, keys, values


@dataclass(frozen=True, slots=True)
class QKVHeads:
    """Heads with optional norms of queries and keys, per head."""

    shape: HeadShape
    query_norm: RMSNorm | None = None
    key_norm: RMSNorm | None = None

    def __call__(self, joined: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, normed and rotated, and values, as `HeadShape.split` does."""
        queries, keys, values = self.shape.split(joined)
        if self.query_norm is not None and self.key_norm is not None:
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        return rotation(queries), rotation(keys), values
