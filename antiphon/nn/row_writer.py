"""Row writes by one copy and one CUDA graph: the updates of an engine step."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from antiphon.nn.graphs import Graphs
from antiphon.nn.host_device import Staging
from antiphon.nn.row_writes import NUM_FIELDS, Packing, RowWrite, write_table

_KEY = "writes of rows"
_NUM_WORDS = 32768  # most words of a copy; one of 64 KiB takes 3 us
_NUM_TABLES = 2  # writes of a table are disjoint; a new request writes some twice
_MAX_ROWS = 128  # rows of a table
_TABLE_WORDS = 1 + _MAX_ROWS * NUM_FIELDS  # preceded by its number of rows


class RowWriter:
    """CUDA graph of kernels that write rows as described by the words copied before them.

    Launched one by one, kernels take the host five times as long.
    """

    def __init__(self, graphs: Graphs, device: torch.device) -> None:
        """Capture the graph, for the stream of ``graphs``."""
        self._graphs = graphs
        self._words = torch.zeros(_NUM_WORDS, dtype=torch.int64, device=device)
        self._staging = Staging(self._words)
        if self._words.is_cuda:
            torch.cuda.synchronize(device)  # words and tables are made on another stream
        if graphs.is_enabled:
            graphs.capture(_KEY, self._write_all)

    def write(self, groups: Sequence[Sequence[RowWrite]]) -> bool:
        """Write the groups in order, each at once; return whether they fit."""
        if len(groups) > _NUM_TABLES or any(_num_rows(group) > _MAX_ROWS for group in groups):
            return False  # before anything is packed
        first = _NUM_TABLES * _TABLE_WORDS
        packing = Packing(first)
        tables = [write_table(group, packing) for group in groups]
        if packing.num_words > _NUM_WORDS:
            return False
        words = self._staging.stage()
        if packing.parts:
            np.concatenate(packing.parts, out=words[first : packing.num_words])
        for number in range(_NUM_TABLES):
            table = tables[number] if number < len(tables) else []
            place = number * _TABLE_WORDS
            words[place] = len(table) // NUM_FIELDS
            words[place + 1 : place + 1 + len(table)] = table
        self._staging.send(packing.num_words)
        self._graphs.run(_KEY, self._write_all)
        return True

    def _write_all(self) -> Tensor:
        from antiphon.nn.kernels.row_writes import write_counted_rows

        for number in range(_NUM_TABLES):
            write_counted_rows(self._words, number * _TABLE_WORDS, _MAX_ROWS)
        return self._words


def _num_rows(group: Sequence[RowWrite]) -> int:
    return sum(len(each.rows) for each in group)
