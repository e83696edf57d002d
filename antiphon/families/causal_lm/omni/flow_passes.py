"""Passes of the flow over windows of several streams; on a GPU each pass is a CUDA graph."""

from functools import partial

import torch
from torch import Tensor

from antiphon.families.causal_lm.omni.flow import FlowModel, FlowWindow
from antiphon.nn.graphs import Graphs, buckets, round_up
from antiphon.nn.weights import Progress

_MAX_ROWS = 8
"""Maximum rows of a pass on a GPU; each row takes 28 MB. On the CPU a pass has one row."""


class FlowPasses:
    """Solves windows of two blocks.

    A pass launches tens of thousands of small kernels, always in the same order. It is captured
    once for each number of rows. Padding rows belong to no stream and have no valid frames.
    """

    def __init__(self, flow: FlowModel, num_streams: int, progress: Progress | None = None) -> None:
        """Allocate inputs and outputs of the passes, and capture them.

        Args:
            progress: callback run for every captured graph.
        """
        self._flow = flow
        self._graphs = Graphs(flow.device)
        self.max_rows = min(num_streams, _MAX_ROWS) if self._graphs.is_enabled else 1
        self._sizes = buckets(self.max_rows)
        self._buffer = flow.empty_window(self.max_rows, num_blocks=2)
        if not self._graphs.is_enabled:
            return
        torch.cuda.synchronize(flow.device)  # waits for loading on other streams
        for number, size in enumerate(reversed(self._sizes), start=1):  # smaller ones reuse memory
            self._graphs.capture(size, partial(self._solve, size))
            if progress is not None:
                progress(number, len(self._sizes))
        self._graphs.settle()

    def solve(self, window: FlowWindow) -> Tensor:
        """Return the spectrograms of up to `max_rows` windows; their ``before`` is replaced.

        The result is valid until the next pass.
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
