"""Writes and sums by one launch against PyTorch lines, on a GPU or in Triton's interpreter."""

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)

from tests.kernels import why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn import kernels
from antiphon.nn.graphs import Graphs
from antiphon.nn.kernels import row_writes
from antiphon.nn.kernels.paired_embedding import embed_pairs
from antiphon.nn.row_writer import RowWriter
from antiphon.nn.row_writes import RowWrite
from tests.nn.many_writes import ManyWrites

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_pairs_of_embeddings_are_added_as_by_pytorch(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    tables = [torch.randn(9, 70, generator=generator).to(DEVICE, dtype) for _ in range(2)]
    ids = torch.randint(-2, 9, (2, 40), generator=generator).to(DEVICE)
    parts = [
        torch.where((each >= 0)[:, None], F.embedding(each.clamp(min=0), table), 0.0)
        for each, table in zip(ids, tables, strict=True)
    ]
    assert torch.equal(embed_pairs(ids, (tables[0], tables[1])), parts[0] + parts[1])
