"""Passes of the flow over windows of several streams: on a GPU each is one CUDA graph."""

from functools import partial

import torch
from torch import Tensor

from antiphon.families.causal_lm.omni.flow import FlowModel, FlowWindow
from antiphon.nn.graphs import Graphs, buckets, round_up
from antiphon.nn.weights import Progress

_MAX_ROWS = 8
"""Of a pass on a GPU, each of which takes 28 MB beside its stream; elsewhere it is one."""


class FlowPasses:
    """Solves windows of two blocks.

    A pass makes tens of thousands of small kernels, in the same order always: it is captured once
    for each number of rows. Rows that fill a pass up are of no stream, and have no frames.

    Attributes:
        max_rows: of a pass.
    """

    def __init__(self, flow: FlowModel, num_streams: int, progress: Progress | None = None) -> None:
        """Allocate what passes read and write, and capture them.

        Args:
            flow: of the checkpoint.
            num_streams: that are decoded side by side.
            progress: called for every graph that has been captured.
        """
        self._flow = flow
        self._graphs = Graphs(flow.device)
        self.max_rows = min(num_streams, _MAX_ROWS) if self._graphs.is_enabled else 1
        self._sizes = buckets(self.max_rows)
        self._buffer = flow.empty_window(self.max_rows, num_blocks=2)
        if not self._graphs.is_enabled:
            return
        torch.cuda.synchronize(flow.device)  # what loading has put on other streams
        for number, size in enumerate(reversed(self._sizes), start=1):  # others fit in its memory
            self._graphs.capture(size, partial(self._solve, size))
            if progress is not None:
                progress(number, len(self._sizes))
        self._graphs.settle()

    def solve(self, window: FlowWindow) -> Tensor:
        """Return the spectrograms of up to `max_rows` windows; what they keep is replaced.

        The result holds until the next pass.
        """
        num_rows = len(window.noise)
        size = round_up(num_rows, self._sizes)
        self._buffer.first(num_rows).copy_(window)
        self._buffer.lengths[num_rows:size] = 0
        mels = self._graphs.run(size, partial(self._solve, size))
        assert window.before is not None
        assert self._buffer.before is not None
        window.before.copy_(self._buffer.before[:num_rows])
        return mels[:num_rows]

    def _solve(self, num_rows: int) -> Tensor:
        return self._flow.solve(self._buffer.first(num_rows))
