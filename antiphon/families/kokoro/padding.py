"""Sentences padded to a common length, each computed as if it were alone and unpadded.

Lengths are numbers on the device, so that one CUDA graph serves all sentences up to its own length.
Where nothing is padded there are no `PaddedRows`, and layers do no more than the published ones.
"""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from antiphon.nn.row_lengths import RowLengths


@dataclass(frozen=True, eq=False)
class PaddedRows:
    """Valid columns of each row in a padded batch ``[B, channels, t]``: the first ones.

    What layers leave behind them is finite, and means nothing.

    Attributes:
        lengths: own columns of each row.
        is_own: bool ``[B, 1, t]``.
        mask: the same as factors, float32.
        shares: factors whose sum with a row's columns is the mean of its own, ``[B, t, 1]``.
    """

    lengths: RowLengths
    is_own: Tensor
    mask: Tensor
    shares: Tensor

    @classmethod
    def of(cls, columns: Tensor, num_columns: int) -> "PaddedRows":
        """Return rows of ``num_columns`` columns, of which ``columns``, int64 ``[B]``, are own."""
        lengths = RowLengths(columns)
        is_own = lengths.mask(num_columns)
        mask = is_own.float()
        return cls(lengths, is_own, mask, (mask / columns.clamp(min=1)[:, None, None]).mT)

    @cached_property
    def doubled(self) -> "PaddedRows":
        """The rows after each column has become two."""
        return self.scaled(2)

    def scaled(self, factor: int, more: int = 0) -> "PaddedRows":
        """Return the rows after each column has become ``factor``, and ``more`` were added."""
        num_columns = self.mask.shape[2] * factor + more
        return PaddedRows.of(self.lengths.columns * factor + more, num_columns)


def own(x: Tensor, rows: PaddedRows | None) -> Tensor:
    """Return ``[B, channels, t]`` with zeros behind rows' own columns, for a layer that mixes."""
    return x if rows is None else x * rows.mask
