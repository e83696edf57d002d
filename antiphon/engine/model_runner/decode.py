"""The autoregressive decode step, by CUDA graphs in buckets of rows and visible positions.

A step without prompts is one graph. Beside prompts, the rows' hidden states come from a pass over
both (`Prefiller.step`), and only the second half of the step is done here: the frames.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.model_runner.ar_model import ARModel, Codes, Frames, Inputs, RequestT
from antiphon.engine.model_runner.kv_cache import KVBudget, KVCaches
from antiphon.engine.runner import row_buckets
from antiphon.nn.attention_backends import decode_attention
from antiphon.nn.device_writes import PackedUpload, upload
from antiphon.nn.graphs import Graphs, buckets, round_up

_MIN_VISIBLE = 256
_NUM_VISIBLE_STEP = 4  # factor between buckets of visible positions
_MAX_USUAL_VISIBLE = 1024  # longer requests are rare: their graphs are captured on demand


@dataclass(frozen=True, slots=True)
class DecodeShape:
    """All that the host decides in a step: a graph's key.

    Attributes:
        num_visible: positions of the fullest slot after the step, rounded up; 0: only the second
            half of the step, which makes frames of hidden states.
        sampling: result of `ARModel.sampling_shape`.
    """

    num_rows: int
    num_visible: int
    sampling: Hashable


class DecodeSteps(Generic[RequestT]):
    """Makes a frame in each of several slots.

    Attributes:
        row_buckets: numbers of rows to which a step is rounded up, with graphs.
        visible_buckets: numbers of visible positions to which a step is rounded up, with graphs.
    """

    def __init__(
        self, model: ARModel[RequestT], caches: KVCaches, graphs: Graphs, budget: KVBudget
    ) -> None:
        self._model = model
        self._caches = caches
        self._graphs = graphs
        self._num_slots = budget.num_slots
        self._device = device = caches.table.device
        self.row_buckets = row_buckets(budget.num_slots)
        self.visible_buckets = buckets(
            budget.max_positions, smallest=_MIN_VISIBLE, factor=_NUM_VISIBLE_STEP
        )
        self._index = torch.full((budget.num_slots,), budget.num_slots, device=device)
        self._hidden = model.like.new_zeros(budget.num_slots, model.width)

    @property
    def usual_visible(self) -> tuple[int, ...]:
        """Buckets of visible positions that usual requests reach."""
        most = max(_MAX_USUAL_VISIBLE, self.visible_buckets[0])
        return tuple(size for size in self.visible_buckets if size <= most)

    @property
    def usual_shapes(self) -> tuple[DecodeShape, ...]:
        """Shapes of the graphs that are captured before the first request."""
        sampling, rows = self._model.sampling_shape(()), self.row_buckets[::-1]
        sizes = (*product(rows, self.usual_visible), *product(rows, [0]))
        return tuple(DecodeShape(*each, sampling) for each in sizes)

    def capture(self, shape: DecodeShape) -> None:
        """Capture a graph, touching the row for padding alone."""
        with self._graphs.on_stream():
            placed = self._index.clone()
            self._index.fill_(self._num_slots)
        self._graphs.capture(shape, partial(self._compute, shape))
        with self._graphs.on_stream():
            self._index.copy_(placed)

    def place(self, slots: Sequence[int], uploads: PackedUpload) -> None:
        """Stage the slot indices of the next step."""
        if slots:
            num_rows = len(slots)
            if self._graphs.is_enabled:
                num_rows = round_up(num_rows, self.row_buckets)
            index = np.full(num_rows, self._num_slots)
            index[: len(slots)] = slots
            uploads.write_first(self._index, index)

    def step(self, slots: Sequence[int], num_visible: int) -> Tensor:
        """Make one frame in each of ``slots``, which are placed.

        Args:
            num_visible: positions of the fullest slot after the step, or more.

        Returns:
            `Frames.codes`, int64 ``[len(slots), frame_size + 1]``, until the next step.
        """
        sampling = self._model.sampling_shape(slots)
        shape = self._rounded(DecodeShape(len(slots), num_visible, sampling))
        if self._graphs.is_enabled and shape not in self._graphs:
            self.capture(shape)
        return self._graphs.run(shape, partial(self._compute, shape))[: len(slots)]

    def draw(self, slots: Sequence[int], hidden: Tensor) -> Tensor:
        """Make one frame in each of ``slots`` as `step` does, of ``hidden``, ``[rows, width]``."""
        self._hidden[: len(slots)].copy_(hidden)
        return self.step(slots, 0)

    def replay(self, slots: Sequence[int], frames: Codes, num_visible: int) -> None:
        """Compute the state after known frames again, to the last bit as `step` did.

        Args:
            slots: slots at the positions of their frames.
            frames: known frames, int64, ``[len(slots), frame_size]``.
        """
        shape = self._rounded(DecodeShape(len(slots), num_visible, None))
        index = np.full(shape.num_rows, self._num_slots)
        index[: len(slots)] = slots
        numbers = np.zeros((shape.num_rows, frames.shape[1] + 1), np.int64)
        numbers[: len(slots), :-1] = frames
        codes = upload(numbers, self._device)
        scores = torch.zeros(shape.num_rows, frames.shape[1], device=self._device)
        inputs = self._model.embed(upload(index, self._device))
        self._forward(inputs, shape.num_visible)
        self._model.commit(Frames(codes, scores), inputs, is_replay=True)

    def _rounded(self, shape: DecodeShape) -> DecodeShape:
        """Return the shape of the graph for ``shape``; without graphs, ``shape`` itself."""
        if not self._graphs.is_enabled:
            return shape
        return DecodeShape(
            round_up(shape.num_rows, self.row_buckets),
            shape.num_visible and round_up(shape.num_visible, self.visible_buckets),
            shape.sampling,
        )

    def _compute(self, shape: DecodeShape) -> Tensor:
        """Make frames of the staged slots, on the device alone."""
        inputs = self._model.embed(self._index[: shape.num_rows])
        hidden = self._hidden[: shape.num_rows]
        if shape.num_visible:
            hidden = self._forward(inputs, shape.num_visible)
        frames = self._model.sample(hidden, inputs, shape.sampling)
        self._model.commit(frames, inputs, is_replay=False)
        return frames.codes

    def _forward(self, inputs: Inputs, num_visible: int) -> Tensor:
        """Run the model on one position; return hidden states, ``[num_rows, width]``."""
        attends = [
            decode_attention(stack, (inputs.slots, inputs.positions), num_visible)
            for stack in self._caches.stacks
        ]
        slots, positions = inputs.slots[:, None], inputs.positions[:, None]
        return self._model.forward(inputs.states, slots, positions, attends)[:, 0]
