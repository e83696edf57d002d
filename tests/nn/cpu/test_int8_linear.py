"""int8 products: close to float32, equal for a row whatever is computed beside it, or refused."""

import logging
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.kit.loading import weights_for
from antiphon.nn.cpu import int8_linear
from antiphon.nn.cpu.int8_linear import Int8Linear, check_quantize
from antiphon.nn.layers import Linear

OUTPUTS, INPUTS = 96, 64


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def linear() -> Linear:
    return Linear(made(OUTPUTS, INPUTS) / math.sqrt(INPUTS), made(OUTPUTS, seed=1))


def test_products_are_close_and_take_a_quarter_of_the_memory(linear: Linear) -> None:
    quantized, states = Int8Linear.pack(linear), made(5, 7, INPUTS, seed=2)
    exact, ours = linear(states), quantized(states)
    assert linear.bias is not None
    assert ours.shape == exact.shape
    error = (ours - exact).square().sum() / (exact - linear.bias).square().sum()
    assert -10 * math.log10(error) > 33
    assert quantized.weight.shape == linear.weight.shape
    assert quantized.weight.is_meta


def test_a_row_does_not_depend_on_the_rows_beside_it(linear: Linear) -> None:
    quantized = Int8Linear.pack(linear)
    rows = made(40, INPUTS, seed=3) * torch.logspace(-3, 3, 40)[:, None]
    together = quantized(rows)
    for size in (1, 3, 16):
        parts = [quantized(part) for part in torch.split(rows, size)]
        assert torch.equal(torch.cat(parts), together)
    wide = made(40, 2 * INPUTS, seed=3)
    assert torch.equal(quantized(wide[:, ::2]), quantized(wide[:, ::2].contiguous()))


def test_zeros_give_the_bias_and_what_is_not_a_number_stays_so(linear: Linear) -> None:
    rows = torch.zeros(3, INPUTS)
    rows[1, 5] = math.nan
    results = Int8Linear.pack(linear)(rows)
    assert linear.bias is not None
    assert torch.equal(results[0], linear.bias)
    assert torch.equal(results[2], linear.bias)
    assert results[1].isnan().all()


def test_what_to_expect_is_logged_once_and_only_on_a_cpu(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    int8_linear._log_expectation.cache_clear()
    check_quantize(None, torch.empty(0, device="meta"))
    check_quantize("int8", torch.empty(0))
    assert not caplog.messages
    for _ in range(2):
        check_quantize(None, torch.empty(0))
    (message,) = caplog.messages
    assert "slower than real time" in message


def test_other_types_and_devices_are_refused() -> None:
    check_quantize(None, torch.empty(0, dtype=torch.bfloat16))
    check_quantize("int8", torch.empty(0))
    with pytest.raises(ModelLoadError, match=r"Invalid 'model\.quantize': 'int8'\..*dtype"):
        check_quantize("int8", torch.empty(0, dtype=torch.bfloat16))
    with pytest.raises(ModelLoadError, match=r"On 'meta' it must be unset; use 'cpu'"):
        check_quantize("int8", torch.empty(0, device="meta"))
    with pytest.raises(ModelLoadError, match=r"'model\.dtype' = 'auto' or 'float32'"):
        weights_for(LoadContext(Path(), "cpu", "bfloat16", quantize="int8"))
