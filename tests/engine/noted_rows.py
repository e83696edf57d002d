"""What a runner computes of each slot, to the bit."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from antiphon.engine.model_runner.ar_model import Frames, Inputs
from antiphon.engine.model_runner.model_runner import ModelRunner


class NotedRows:
    """Rows of all steps.

    Attributes:
        sizes: number of rows of each step.
        by_slot: hidden states, scores and codes of each frame of a slot, end to end.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.by_slot: defaultdict[int, list[Tensor]] = defaultdict(list)

    def take(self, hidden: Tensor, inputs: Inputs, frames: Frames, num_scores: int | None) -> None:
        self.sizes.append(len(hidden))
        codes = frames.codes[:, :-1].double()  # the outcome is still to come
        scores = frames.scores[:, :num_scores].double()
        rows = torch.cat((hidden.double(), scores, codes), dim=1)
        for slot, row in zip(inputs.slots.tolist(), rows, strict=True):
            self.by_slot[slot].append(row)


@contextmanager
def noted_rows(runner: ModelRunner[Any], *, num_scores: int | None = None) -> Iterator[NotedRows]:
    """Note the rows of the steps in a block, with as many scores as the model writes."""
    noted, sample = NotedRows(), runner._model.sample

    def noting(hidden: Tensor, inputs: Inputs, sampling: Any) -> Frames:
        frames = sample(hidden, inputs, sampling)
        noted.take(hidden, inputs, frames, num_scores)
        return frames

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runner._model, "sample", noting)
        yield noted


def assert_same_rows(together: NotedRows, alone: NotedRows) -> None:
    """Check that both noted the same, in steps of several rows, and of one."""
    assert max(together.sizes) == len(together.by_slot)
    assert {*alone.sizes} == {1}
    for slot, rows in together.by_slot.items():
        assert torch.equal(torch.stack(rows), torch.stack(alone.by_slot[slot]))


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
