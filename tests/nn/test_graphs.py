"""Sizes that graphs are captured for; and a graph gives what its function gives."""

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import ModelLoadError
from antiphon.nn.graphs import Graphs, buckets, round_up


@given(st.integers(1, 5000), st.integers(1, 300), st.sampled_from([2, 4]), st.data())
def test_every_number_has_a_bucket_that_is_not_far_above(
    largest: int, smallest: int, factor: int, data: st.DataObject
) -> None:
    sizes = buckets(largest, smallest=smallest, factor=factor)
    number = data.draw(st.integers(1, largest))
    size = round_up(number, sizes)
    assert number <= size <= largest
    assert size in sizes
    assert size < factor * number or size == sizes[0]


def test_a_shortage_of_memory_is_reported_with_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (15 * 2**20, 4096 * 2**20))
    graphs = Graphs(torch.device("cpu"))
    monkeypatch.setattr(graphs, "_stream", object())
    monkeypatch.setattr(graphs, "on_stream", nullcontext)

    def too_large() -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(ModelLoadError, match=r"15 of 4096 MiB are free.*--quantize int8"):
        graphs.capture("key", too_large)


def test_without_a_gpu_a_function_is_called_every_time() -> None:
    graphs, total = Graphs(torch.device("cpu")), torch.zeros(1)
    for _ in range(3):
        with graphs.on_stream():
            graphs.run("key", lambda: total.add_(1))
    assert total.item() == 3
    assert not graphs.is_enabled
    assert "key" not in graphs


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_graph_reads_what_its_buffers_hold_now() -> None:
    device = torch.device("cuda")
    graphs, state, step = Graphs(device), torch.zeros(4, device=device), torch.zeros(4)
    step = step.to(device)

    def advance() -> torch.Tensor:
        state.add_(step)
        return state * 2

    torch.cuda.synchronize()
    graphs.capture("double", advance)
    with graphs.on_stream():
        for number in range(1, 4):
            step.fill_(number)
            result = graphs.run("double", advance)
        torch.cuda.synchronize()
    assert result.tolist() == [12.0] * 4
