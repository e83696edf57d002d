"""Vectors to codes: each quantizer names the nearest vector of its table and leaves the rest.

What the named vectors miss is quantized next, so that codes refine one another. The first
quantizer, called semantic, and the others, called acoustic, start from the same vector.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.layers import Weights

_MIN_USAGE = 1e-5


@dataclass(frozen=True, slots=True)
class ResidualQuantizer:
    """Quantizers in a row, after a projection that they share.

    Attributes:
        projection: ``[codebook_dim, hidden_size, 1]``.
        tables: ``[codebook_size, codebook_dim]`` each.
    """

    projection: Tensor
    tables: tuple[Tensor, ...]

    @classmethod
    def of(cls, weights: Weights, name: str, num_quantizers: int) -> "ResidualQuantizer":
        names = (f"{name}.layers.{index}.codebook" for index in range(num_quantizers))
        tables = (_table(weights, name) for name in names)
        return cls(weights[f"{name}.input_proj.weight"], tuple(tables))

    def __call__(self, vectors: Tensor) -> list[Tensor]:
        """Map ``[1, hidden_size, n]`` to int64 ``[n]`` per quantizer."""
        rest = F.conv1d(vectors, self.projection)[0].T
        codes = []
        for table in self.tables:
            nearest = torch.cdist(rest[None], table[None])[0].argmin(dim=1)
            rest = rest - table[nearest]
            codes.append(nearest)
        return codes


@dataclass(frozen=True, slots=True)
class SplitQuantizer:
    """The semantic and the acoustic quantizers, side by side."""

    semantic: ResidualQuantizer
    acoustic: ResidualQuantizer

    @classmethod
    def of(
        cls, weights: Weights, name: str, num_semantic: int, num_acoustic: int
    ) -> "SplitQuantizer":
        return cls(
            ResidualQuantizer.of(
                weights, f"{name}.semantic_residual_vector_quantizer", num_semantic
            ),
            ResidualQuantizer.of(
                weights, f"{name}.acoustic_residual_vector_quantizer", num_acoustic
            ),
        )

    def __call__(self, vectors: Tensor) -> Tensor:
        """Map ``[1, hidden_size, n]`` to int64 ``[n, num_quantizers]``."""
        return torch.stack([*self.semantic(vectors), *self.acoustic(vectors)], dim=1)


def _table(weights: Weights, name: str) -> Tensor:
    usage = weights[f"{name}.cluster_usage"].clamp(min=_MIN_USAGE)
    return weights[f"{name}.embed_sum"] / usage[:, None]
