"""Tables whose rows are computed when they are first read."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


class LazyRows:
    """Rows of a table, each computed by itself, so that it does not depend on the others.

    Attributes:
        table: ``[num_rows, width]``; memory of rows that were never read is not touched.
    """

    def __init__(
        self, num_rows: int, width: int, compute: Callable[[int], Tensor], like: Tensor
    ) -> None:
        """Allocate the table.

        Args:
            compute: returns a row by its number, ``[width]``.
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
            for number in np.unique(numbers[~self._is_known[numbers]]).tolist():
                self.table[number] = self._compute(number)
                self._is_known[number] = True
