"""Rows are computed together while one thread does each operation of theirs."""

import math

import pytest
import torch

from antiphon.nn.cpu.exact_rows import MAX_EXACT_ROWS, num_exact_rows
from antiphon.nn.layers import Linear


@pytest.mark.parametrize(
    ("width", "expected"),
    [(64, MAX_EXACT_ROWS), (3072, MAX_EXACT_ROWS), (6144, 5), (18944, 1), (40000, 1)],
)
def test_wide_rows_are_computed_one_by_one(width: int, expected: int) -> None:
    assert num_exact_rows(width) == expected


def test_few_rows_of_an_invariant_product_are_computed_one_by_one() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, rows = (torch.randn(size, 512, generator=generator) for size in (1024, MAX_EXACT_ROWS))
    head = Linear(weight / math.sqrt(512), is_batch_invariant=True)
    alone = torch.cat([head(row) for row in torch.split(rows, 1)])
    for num_rows in range(1, MAX_EXACT_ROWS + 1):
        assert torch.equal(head(rows[:num_rows]), alone[:num_rows])
    many = torch.cat((rows, rows))
    torch.testing.assert_close(head(many)[:MAX_EXACT_ROWS], alone)
