"""Writes and sums by one launch against PyTorch lines, on a GPU or in Triton's interpreter."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)

from tests.kernels import why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn import kernels
from antiphon.nn.kernels import row_writes
from antiphon.nn.kernels.paired_embedding import embed_pairs
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
