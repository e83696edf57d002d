"""A row is computed once, when it is first read, and does not depend on those beside it."""

import torch
from torch import Tensor

from antiphon.nn.cpu.exact_rows import MAX_EXACT_ROWS
from antiphon.nn.cpu.lazy_rows import LazyRows, projected
from antiphon.nn.layers import Linear


def test_a_row_is_computed_once_and_the_others_are_left_out() -> None:
    computed: list[int] = []

    def compute(numbers: Tensor) -> Tensor:
        assert len(numbers) <= MAX_EXACT_ROWS
        computed.extend(numbers.tolist())
        return numbers[:, None].expand(-1, 3).float()

    rows = LazyRows(40, 3, compute, torch.empty(0))
    rows.fill(torch.tensor([[7, 2], [2, 7]]))
    rows.fill(torch.tensor(7))
    rows.fill(torch.tensor([5, 2]))
    rows.fill(torch.arange(20, 40))
    assert sorted(computed) == [2, 5, 7, *range(20, 40)]
    for number in computed:
        assert rows.table[number].tolist() == [number] * 3


def test_projected_rows_are_the_same_together_and_one_by_one() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = ((1001, 600), (1001,), (300, 1001), (300,))
    first, bias, second, last_bias = (torch.randn(size, generator=generator) / 20 for size in sizes)
    layers = Linear(first, bias), Linear(second, last_bias)
    rows = torch.randn(MAX_EXACT_ROWS, 600, generator=generator)
    together = projected(rows, *layers)
    for row, expected in zip(rows, together, strict=True):
        assert torch.equal(projected(row[None], *layers)[0], expected)
    exact = layers[1](torch.nn.functional.silu(layers[0](rows)))
    torch.testing.assert_close(together, exact)
