"""Residual vector quantizers: codes to vectors, and vectors to codes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.layers import Weights

_MIN_USAGE = 1e-5


def codebook(weights: Weights, name: str, sums: str) -> Tensor:
    """Return a codebook ``[size, dim]`` trained by moving averages."""
    usage = weights[f"{name}.cluster_usage"].clamp(min=_MIN_USAGE)
    return weights[f"{name}.{sums}"] / usage[:, None]


@dataclass(frozen=True, slots=True)
class CodeTables:
    """Code tables of all quantizers, with the output projection folded in.

    Attributes:
        rows: concatenated tables, ``[num_quantizers * codebook_size, dim]``.
        first_rows: first row of each table, int64 ``[num_quantizers]``.
    """

    rows: Tensor
    first_rows: Tensor

    @classmethod
    def of(cls, tables: Sequence[Tensor], dtype: torch.dtype) -> "CodeTables":
        """Concatenate tables, ``[codebook_size, dim]`` each."""
        rows = torch.cat(list(tables))
        first_rows = torch.arange(0, len(rows), len(tables[0]), device=rows.device)
        return cls(rows.to(dtype), first_rows)

    def __call__(self, codes: Tensor) -> Tensor:
        """Map ``[B, num_quantizers, n]`` to ``[B, n, dim]``: the sum over a frame.

        Codes outside the tables are clamped.
        """
        codebook_size = len(self.rows) // len(self.first_rows)
        rows = codes.transpose(1, 2).clamp(0, codebook_size - 1) + self.first_rows
        vectors = F.embedding_bag(rows.flatten(0, 1), self.rows, mode="sum")
        return torch.unflatten(vectors, 0, rows.shape[:2])


@dataclass(frozen=True, slots=True)
class ResidualQuantizer:
    """Residual vector quantizer: each codebook quantizes the residual of those before it.

    Attributes:
        projection: ``[codebook_dim, hidden_size, 1]``.
        tables: ``[codebook_size, codebook_dim]`` each.
    """

    projection: Tensor
    tables: tuple[Tensor, ...]

    def __call__(self, vectors: Tensor) -> list[Tensor]:
        """Map ``[B, hidden_size, n]`` to int64 ``[B, n]`` per codebook."""
        projected = F.conv1d(vectors, self.projection).transpose(1, 2)
        rest = projected.flatten(0, 1)
        codes = []
        for table in self.tables:
            nearest = torch.cdist(rest[None], table[None])[0].argmin(dim=1)
            rest = rest - table[nearest]
            codes.append(nearest.view(projected.shape[:2]))
        return codes
