"""Row lengths of a padded batch, whose rows are computed as if each were alone."""

from dataclasses import dataclass, field
from typing import TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

_Padding: TypeAlias = tuple[int, int, int, str]


@dataclass(frozen=True, slots=True, eq=False)
class RowLengths:
    """Number of leading columns of each row of a batch ``[B, C, t]`` that are its own.

    The columns after them are finite, and never read. All work is done on the device, so that a
    CUDA graph can serve any lengths.

    Attributes:
        columns: int64 ``[B]``, each from 1 to ``t``.
    """

    columns: Tensor
    _indices: dict[_Padding, Tensor] = field(default_factory=dict, init=False, repr=False)

    def downsampled(self, stride: int) -> "RowLengths":
        """Return the lengths after a stride, rounded up."""
        return RowLengths((self.columns + (stride - 1)) // stride)

    def mask(self, num_columns: int) -> Tensor:
        """Return a mask of the rows' own columns, bool ``[B, 1, num_columns]``."""
        numbers = torch.arange(num_columns, device=self.columns.device)
        return (numbers < self.columns[:, None])[:, None]

    def pad(self, x: Tensor, before: int, after: int, mode: str) -> Tensor:
        """Pad ``[B, C, t]``, every row at its own end, as `torch.nn.functional.pad` pads one row.

        Args:
            before: columns before the first.
            after: columns after a row's own last one; further columns may follow.
            mode: "constant" (zeros), "reflect" or "replicate"; for "reflect" rows have more own
                columns than padding.

        Returns:
            ``[B, C, before + t + after]``.
        """
        if mode == "constant":
            return F.pad(torch.where(self.mask(x.shape[2]), x, 0.0), (before, after))
        index = self._index((before, after, x.shape[2], mode))
        return x.gather(2, index.expand(-1, x.shape[1], -1))

    def mean(self, x: Tensor) -> Tensor:
        """Return the mean over rows' own columns of ``[B, C, t]``, ``[B, C, 1]``."""
        total = torch.where(self.mask(x.shape[2]), x, 0.0).sum(dim=2, keepdim=True)
        return total / self.columns[:, None, None]

    def _index(self, padding: _Padding) -> Tensor:
        """Return the source column of each padded column, int64 ``[B, 1, t']``."""
        if padding not in self._indices:
            before, after, num_columns, mode = padding
            device = self.columns.device
            places = torch.arange(-before, num_columns + after, device=device)
            last = self.columns[:, None, None] - 1
            if mode == "reflect":
                places = last - (last - places.abs()).abs()
            else:
                assert mode == "replicate", f"no row is padded by '{mode}'"
                places = torch.minimum(places, last)
            self._indices[padding] = places.clamp(min=0)
        return self._indices[padding]
