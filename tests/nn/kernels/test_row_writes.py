"""Writes by one launch against PyTorch lines, on a GPU or in Triton's interpreter."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from tests.kernels import DEVICE, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn import kernels
from antiphon.nn.device_writes import PackedUpload, RowWrite, RowWriter
from antiphon.nn.graphs import Graphs
from antiphon.nn.kernels import row_writes
from tests.nn.many_writes import ManyWrites

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("seed", range(8))
def test_rows_hold_what_was_written_last(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[int] = []
    write_rows = row_writes.write_rows

    def counted(table: torch.Tensor, words: torch.Tensor) -> None:
        launches.append(len(table))
        write_rows(table, words)

    monkeypatch.setattr(row_writes, "write_rows", counted)
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    ManyWrites(DEVICE, seed).check()
    assert launches, "the kernel has written"


@pytest.mark.parametrize("num_writes", [1, 4, 40])
def test_a_graph_writes_what_it_has_room_for(
    num_writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    graphs, written = Graphs(DEVICE), list[bool]()
    writer = RowWriter(graphs, DEVICE)
    write = writer.write

    def noted(groups: Sequence[Sequence[RowWrite]]) -> bool:
        written.append(write(groups))
        return written[-1]

    monkeypatch.setattr(writer, "write", noted)
    with graphs.on_stream():
        for seed in range(24):  # more than are staged
            ManyWrites(DEVICE, seed, writer, num_writes).check()
    assert all(written) == (num_writes == 1)
    assert any(written) == (num_writes < 40), "more groups than tables are launched one by one"


@pytest.mark.parametrize(
    ("num_rows", "num_values", "fits"),
    [(128, 1, True), (129, 1, False), (1, 31_486, True), (1, 31_487, False)],
)
def test_what_is_too_much_for_the_graph_is_written_all_the_same(
    num_rows: int, num_values: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    graphs, launches = Graphs(DEVICE), list[int]()
    write_rows = row_writes.write_rows

    def counted(table: torch.Tensor, words: torch.Tensor) -> None:
        launches.append(len(table))
        write_rows(table, words)

    monkeypatch.setattr(row_writes, "write_rows", counted)
    target = torch.zeros(200, 32_000, dtype=torch.int64, device=DEVICE)
    uploads = PackedUpload(DEVICE, RowWriter(graphs, DEVICE))
    values = np.arange(1, num_rows * num_values + 1).reshape(num_rows, num_values)
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    with graphs.on_stream():
        uploads.write(target, np.arange(num_rows), values)
        uploads.send()
        expected = torch.zeros(200, 32_000, dtype=torch.int64)
        expected[:num_rows, :num_values] = torch.from_numpy(values)
        assert torch.equal(target.cpu(), expected)
    assert (not launches) == fits
