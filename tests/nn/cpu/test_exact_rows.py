"""Few rows are the same together and one by one, for any number of threads."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from antiphon.nn.cpu.exact_rows import MAX_EXACT_ROWS
from antiphon.nn.cpu.packed_layers import kinds
from antiphon.nn.layers import Linear, SwiGLU
from tests.engine.noted_rows import torch_threads

WIDTH = 512


def made(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)) / math.sqrt(shape[-1])


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    with torch_threads(request.param):
        yield


@pytest.mark.parametrize("num_outputs", [1024, 5003])
def test_few_rows_of_an_invariant_product(num_outputs: int) -> None:
    weight, rows = made(num_outputs, WIDTH), made(MAX_EXACT_ROWS, WIDTH) * math.sqrt(WIDTH)
    head = Linear(weight, is_batch_invariant=True)
    alone = torch.cat([head(row) for row in torch.split(rows, 1)])
    for num_rows in range(1, MAX_EXACT_ROWS + 1):
        assert torch.equal(head(rows[:num_rows]), alone[:num_rows])
    torch.testing.assert_close(head(torch.cat((rows, rows)))[:MAX_EXACT_ROWS], alone)
    biased = Linear(weight, made(num_outputs), is_batch_invariant=True)
    torch.testing.assert_close(biased(rows), Linear(weight, biased.bias)(rows))


@pytest.mark.parametrize("inner_width", [1000, 9001])
def test_few_rows_of_packed_layers(inner_width: int) -> None:
    gate_up, down = made(2 * inner_width, 64), made(64, inner_width)
    _, kind = kinds()["int8"]
    layer = SwiGLU(*(kind.pack(Linear(each)) for each in (gate_up, down)))
    rows = made(MAX_EXACT_ROWS, 1, 64) * 40
    alone = torch.cat([layer(row) for row in torch.split(rows, 1)])
    for num_rows in range(1, MAX_EXACT_ROWS + 1):
        assert torch.equal(layer(rows[:num_rows]), alone[:num_rows])
