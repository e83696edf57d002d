"""Tables whose rows are computed when they are first read."""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.cpu.exact_rows import MAX_EXACT_ROWS, joined_rows, linear_by_row
from antiphon.nn.layers import Linear


class LazyRows:
    """Rows of a table, few of which are computed together; none depends on the others.

    Attributes:
        table: ``[num_rows, width]``; memory of rows that were never read is not touched.
    """

    def __init__(
        self, num_rows: int, width: int, compute: Callable[[Tensor], Tensor], like: Tensor
    ) -> None:
        """Allocate the table.

        Args:
            compute: returns up to `MAX_EXACT_ROWS` rows by their numbers, each as if it were alone.
            like: tensor of the wanted type.
        """
        self.table = like.new_empty(num_rows, width)
        self._compute = compute
        self._is_known = np.zeros(num_rows, np.bool_)

    def fill(self, ids: Tensor) -> None:
        """Compute the rows of ids that were never read, int64 of any shape."""
        numbers = ids.numpy()
        if self._is_known[numbers].all():
            return
        with torch.inference_mode():
            unknown = np.unique(numbers[~self._is_known[numbers]])
            for some in torch.split(torch.from_numpy(unknown), MAX_EXACT_ROWS):
                self.table[some] = self._compute(some)
            self._is_known[unknown] = True


def projected(rows: Tensor, first: Linear, second: Linear) -> Tensor:
    """Return ``second(silu(first(rows)))``, each row as if it were alone."""
    inner = linear_by_row(rows, first.weight, first.bias)
    inner = joined_rows(F.silu, zip(torch.split(inner, 1), strict=True))
    return linear_by_row(inner, second.weight, second.bias)
