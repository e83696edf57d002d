"""int8 products: close to float32, equal for a row whatever is computed beside it."""

import json
import math
import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from antiphon.nn.cpu.fbgemm import has_engine
from antiphon.nn.cpu.int8_linear import Int8Linear
from antiphon.nn.cpu.int8_weight_linear import Int8WeightLinear
from antiphon.nn.cpu.packed_layers import Packed
from antiphon.nn.layers import Linear

OUTPUTS, INPUTS = 96, 64
KINDS = [*((Int8Linear,) if has_engine() else ()), Int8WeightLinear]
of_each_kind = pytest.mark.parametrize("kind", KINDS)


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def linear() -> Linear:
    return Linear(made(OUTPUTS, INPUTS) / math.sqrt(INPUTS), made(OUTPUTS, seed=1))


@of_each_kind
def test_products_are_close_and_take_a_quarter_of_the_memory(kind: Packed, linear: Linear) -> None:
    quantized, states = kind.pack(linear), made(5, 7, INPUTS, seed=2)
    exact, ours = linear(states), quantized(states)
    assert linear.bias is not None
    assert ours.shape == exact.shape
    error = (ours - exact).square().sum() / (exact - linear.bias).square().sum()
    assert -10 * math.log10(error) > 33
    assert quantized.weight.shape == linear.weight.shape
    assert quantized.weight.is_meta


@of_each_kind
def test_a_row_does_not_depend_on_the_rows_beside_it(kind: Packed, linear: Linear) -> None:
    quantized = kind.pack(linear)
    rows = made(40, INPUTS, seed=3) * torch.logspace(-3, 3, 40)[:, None]
    together = quantized(rows)
    for size in (1, 3, 16):
        parts = [quantized(part) for part in torch.split(rows, size)]
        assert torch.equal(torch.cat(parts), together)
    wide = made(40, 2 * INPUTS, seed=3)
    assert torch.equal(quantized(wide[:, ::2]), quantized(wide[:, ::2].contiguous()))


_LARGEST = """
import torch
from antiphon.nn.cpu.int8_linear import Int8Linear
from antiphon.nn.layers import Linear
print(Int8Linear.pack(Linear(torch.ones(32, 64)))(torch.ones(1, 64)).unique().tolist())
"""


@pytest.mark.skipif(Int8Linear not in KINDS, reason="needs FBGEMM")
def test_the_largest_numbers_do_not_saturate_without_vnni() -> None:
    command = [sys.executable, "-c", _LARGEST]
    environment = {**os.environ, "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (product,) = json.loads(done.stdout)
    assert product == pytest.approx(64, rel=1e-6)  # eight bits of activations give half of it


def test_rows_that_the_kernel_would_read_beyond_stay_float32() -> None:
    odd = Linear(made(OUTPUTS, INPUTS + 4).bfloat16())
    kept = Int8WeightLinear.pack(odd)
    assert torch.equal(kept.weight, odd.weight.float())


@of_each_kind
def test_zeros_give_the_bias_and_what_is_not_a_number_stays_so(
    kind: Packed, linear: Linear
) -> None:
    rows = torch.zeros(3, INPUTS)
    rows[1, 5] = math.nan
    results = kind.pack(linear)(rows)
    assert linear.bias is not None
    assert torch.equal(results[0], linear.bias)
    assert torch.equal(results[2], linear.bias)
    assert results[1].isnan().all()
