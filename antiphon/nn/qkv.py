"""How the product that makes queries, keys and values is cut into heads, normed and rotated."""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.nn.layers import RMSNorm, Rotation


@dataclass(frozen=True, slots=True)
class Heads:
    """How a layer's queries, keys and values are cut into heads."""

    num_heads: int
    num_kv_heads: int
    head_dim: int

    def split(self, joined: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cut ``[..., (num_heads + 2 * num_kv_heads) * head_dim]`` into queries, keys, values."""
        heads = joined.view(*joined.shape[:-1], -1, self.head_dim)
        sizes = [self.num_heads, self.num_kv_heads, self.num_kv_heads]
        queries, keys, values = torch.split(heads, sizes, dim=-2)
        return queries, keys, values


@dataclass(frozen=True, slots=True)
class NormedHeads:
    """Heads whose queries and keys are normed, each head by itself."""

    shape: Heads
    query_norm: RMSNorm
    key_norm: RMSNorm

    def __call__(self, joined: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, normed and rotated, and values, as `Heads.split` does."""
        queries, keys, values = self.shape.split(joined)
        return rotation(self.query_norm(queries)), rotation(self.key_norm(keys)), values
