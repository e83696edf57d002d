"""Codes to vectors: one table per code of a frame, its output projection multiplied in."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.qwen3_tts.codec_layers import Source
from antiphon.nn.layers import Weights

_MIN_USAGE = 1e-5
_NUM_SEMANTIC = 1


@dataclass(frozen=True, slots=True)
class CodeTables:
    """The tables of all codes, end to end.

    Attributes:
        rows: ``[num_quantizers * codebook_size, codebook_dim]``.
        first_rows: where each table begins, int64 ``[num_quantizers]``.
    """

    rows: Tensor
    first_rows: Tensor

    @classmethod
    def of(cls, source: Source, name: str, num_quantizers: int) -> "CodeTables":
        tables = [
            *_projected(source.weights, f"{name}.rvq_first", _NUM_SEMANTIC),
            *_projected(source.weights, f"{name}.rvq_rest", num_quantizers - _NUM_SEMANTIC),
        ]
        rows = torch.cat(tables)
        first_rows = torch.arange(0, len(rows), len(tables[0]), device=rows.device)
        return cls(rows.to(source.dtype), first_rows)

    def __call__(self, codes: Tensor) -> Tensor:
        """Map ``[B, num_quantizers, n]`` to ``[B, n, codebook_dim]``: the sum over a frame.

        Ids outside the tables are clamped into them.
        """
        codebook_size = len(self.rows) // len(self.first_rows)
        rows = codes.transpose(1, 2).clamp(0, codebook_size - 1) + self.first_rows
        vectors = F.embedding_bag(rows.flatten(0, 1), self.rows, mode="sum")
        return torch.unflatten(vectors, 0, rows.shape[:2])


def _projected(weights: Weights, name: str, num_tables: int) -> list[Tensor]:
    projection = weights[f"{name}.output_proj.weight"].squeeze(2)
    tables = []
    for index in range(num_tables):
        table = f"{name}.vq.layers.{index}._codebook"
        usage = weights[f"{table}.cluster_usage"].clamp(min=_MIN_USAGE)
        tables.append(weights[f"{table}.embedding_sum"] / usage[:, None] @ projection.T)
    return tables
