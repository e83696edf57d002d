"""Residual vector quantizer, whose codebooks are moving averages of what they stand for."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor, nn

_DECAY = 0.98
_MIN_USAGE = 1e-5
_DEAD_SHARE = 0.05
"""Share of the mean usage below which a code is replaced by a vector of the batch."""
_LLOYD_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Quantized:
    """Result of a quantizer.

    Attributes:
        vectors: ``[B, num_out, n]``; gradients pass to the quantizer's input as if it were exact.
        codes: int64 ``[B, num_codebooks, n]``.
        commitment: mean squared distance of the input from its codes.
    """

    vectors: Tensor
    codes: Tensor
    commitment: Tensor


class ResidualQuantizer(nn.Module):
    """Each codebook quantizes what those before it left over; computed in float32.

    A codebook is ``sums / usage``, as in the official checkpoint.
    """

    usage: Tensor
    sums: Tensor
    tally: Tensor
    """What the codes of a step stand for: their number, the sum of their vectors, and a vector that
    could replace a dead code; float32 ``[num_codebooks, size, 1 + 2 * dim]``."""

    def __init__(self, num_codebooks: int, size: int, dim: int, num_in: int, num_out: int) -> None:
        super().__init__()
        self.input_proj = nn.Conv1d(num_in, dim, 1, bias=False)
        self.output_proj = nn.Conv1d(dim, num_out, 1, bias=False)
        self.register_buffer("usage", torch.ones(num_codebooks, size))
        self.register_buffer("sums", torch.randn(num_codebooks, size, dim))
        tally = torch.zeros(num_codebooks, size, 1 + 2 * dim)
        self.register_buffer("tally", tally, persistent=False)

    def table(self, index: int) -> Tensor:
        """Return a codebook, ``[size, dim]``."""
        return self.sums[index] / self.usage[index].clamp(min=_MIN_USAGE)[:, None]

    def forward(self, x: Tensor, num_used: Tensor | None = None) -> Quantized:
        """Quantize ``[B, num_in, n]``; while training, count for `move` too.

        Args:
            x: vectors of frames.
            num_used: codebooks that contribute to a row's vectors, int64 ``[B]``; ``None``: all.
        """
        with torch.autocast(x.device.type, enabled=False):
            projected = self.input_proj(x.float()).transpose(1, 2)
            rest = projected.detach()
            total = torch.zeros_like(rest)
            codes, distances = [], []
            for index in range(len(self.usage)):
                table = self.table(index)
                nearest = _nearest(rest.flatten(0, 1), table)
                chosen = F.embedding(nearest, table).view_as(rest)
                if self.training:
                    self._count(index, rest.flatten(0, 1), nearest)
                if num_used is not None:
                    chosen = chosen * (index < num_used)[:, None, None]
                distances.append((projected - total - chosen).square().mean())
                total = total + chosen
                rest = rest - chosen
                codes.append(nearest.view(rest.shape[:2]))
            exact = projected + (total - projected).detach()
            vectors = self.output_proj(exact.transpose(1, 2))
        return Quantized(vectors, torch.stack(codes, 1), torch.stack(distances).mean())

    def vectors(self, codes: Tensor) -> Tensor:
        """Return the vectors of codes ``[B, n, num_codebooks]``, ``[B, num_out, n]``."""
        with torch.autocast(codes.device.type, enabled=False):
            tables = (self.table(index) for index in range(codes.shape[2]))
            chosen = [table[codes[:, :, index]] for index, table in enumerate(tables)]
            return self.output_proj(torch.stack(chosen).sum(0).transpose(1, 2))  # type: ignore[no-any-return]

    def unquantized(self, x: Tensor) -> Tensor:
        """Map ``[B, num_in, n]`` to ``[B, num_out, n]`` without rounding."""
        return self.output_proj(self.input_proj(x))  # type: ignore[no-any-return]

    @torch.no_grad()
    def fit(self, x: Tensor) -> None:
        """Set the codebooks to clusters of ``[B, num_in, n]``, one after the other (k-means)."""
        with torch.autocast(x.device.type, enabled=False):
            self._fit(self.input_proj(x.float()).transpose(1, 2).flatten(0, 1))

    def _fit(self, rest: Tensor) -> None:
        num_codebooks, size = self.usage.shape
        for index in range(num_codebooks):
            # Vectors are taken from all over the batch; repeated ones are moved apart.
            rows = torch.arange(size, device=rest.device) * max(1, len(rest) // size) % len(rest)
            table = rest[rows] + 1e-3 * rest.std() * torch.randn_like(rest[rows])
            for _ in range(_LLOYD_ROUNDS):
                counts, sums = _clusters(rest, _nearest(rest, table), size)
                table = torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], table)
            self.usage[index] = 1.0
            self.sums[index] = table
            rest = rest - table[_nearest(rest, table)]

    @torch.no_grad()
    def move(self) -> None:
        """Move the codebooks towards what was counted; dead codes become vectors of the batch."""
        dim = self.sums.shape[2]
        counts, totals, spares = torch.tensor_split(self.tally, (1, 1 + dim), 2)
        self.usage.lerp_(counts[:, :, 0], 1 - _DECAY)
        self.sums.lerp_(totals, 1 - _DECAY)
        mean_usage = counts.mean(1)
        is_dead = self.usage < _DEAD_SHARE * mean_usage
        self.sums.copy_(torch.where(is_dead[:, :, None], spares * mean_usage[:, None], self.sums))
        self.usage.copy_(torch.where(is_dead, mean_usage, self.usage))

    @torch.no_grad()
    def _count(self, index: int, vectors: Tensor, nearest: Tensor) -> None:
        counts, totals = _clusters(vectors, nearest, self.usage.shape[1])
        rows = torch.arange(len(counts), device=vectors.device) % len(vectors)
        self.tally[index] = torch.cat((counts[:, None], totals, vectors[rows]), 1)

    def clear_spares(self) -> None:
        """Forget replacements of dead codes: of several replicas, the first one's are used."""
        self.tally[:, :, 1 + self.sums.shape[2] :] = 0


def _nearest(vectors: Tensor, table: Tensor) -> Tensor:
    """Return the index of each vector's nearest row, int64 ``[n]``."""
    products = torch.addmm(table.square().sum(1), vectors, table.T, alpha=-2.0)
    return products.argmin(1)


def _clusters(vectors: Tensor, nearest: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return how many vectors each code has, and their sum."""
    counts = vectors.new_zeros(size).index_add_(0, nearest, torch.ones_like(vectors[:, 0]))
    sums = vectors.new_zeros(size, vectors.shape[1]).index_add_(0, nearest, vectors)
    return counts, sums
