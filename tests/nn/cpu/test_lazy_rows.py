"""A row is computed once, by itself, when it is first read."""

import torch

from antiphon.nn.cpu.lazy_rows import LazyRows


def test_a_row_is_computed_once_and_the_others_are_left_out() -> None:
    computed: list[int] = []

    def compute(number: int) -> torch.Tensor:
        computed.append(number)
        return torch.full((3,), float(number))

    rows = LazyRows(10, 3, compute, torch.empty(0))
    rows.fill(torch.tensor([[7, 2], [2, 7]]))
    rows.fill(torch.tensor(7))
    rows.fill(torch.tensor([5, 2]))
    assert sorted(computed) == [2, 5, 7]
    for number in computed:
        assert rows.table[number].tolist() == [number] * 3
