"""float16 products: those of bfloat16 weights to rounding, in half of the memory."""

import math

import pytest
import torch
from torch import Tensor

from antiphon.nn.cpu.fbgemm import has_engine
from antiphon.nn.cpu.fp16_linear import Fp16Linear
from antiphon.nn.layers import Linear

OUTPUTS, INPUTS = 96, 64

pytestmark = pytest.mark.skipif(not has_engine(), reason="needs FBGEMM")


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def decibels(exact: Tensor, ours: Tensor) -> float:
    return 10 * math.log10(exact.square().sum() / (ours - exact).square().sum())


def test_products_of_published_weights_are_those_of_float32_to_rounding() -> None:
    weight = (made(OUTPUTS, INPUTS) / math.sqrt(INPUTS)).bfloat16()
    exact = Linear(weight.float(), made(OUTPUTS, seed=1))
    half, states = Fp16Linear.pack(Linear(weight, exact.bias)), made(5, 7, INPUTS, seed=2)
    assert half(states).shape == (5, 7, OUTPUTS)
    assert decibels(exact(states), half(states)) > 110
    assert half.weight.shape == weight.shape
    assert half.weight.is_meta
    wide = made(5, 2 * INPUTS)
    torch.testing.assert_close(half(wide[:, ::2]), exact(wide[:, ::2]))


def test_float32_weights_are_rounded_and_what_is_not_a_number_stays_so() -> None:
    exact = Linear(made(OUTPUTS, INPUTS))
    half, states = Fp16Linear.pack(exact), made(3, INPUTS, seed=2)
    assert 60 < decibels(exact(states), half(states)) < 90
    states[1, 5] = math.nan
    assert half(states)[1].isnan().all()
    assert half(states)[[0, 2]].isfinite().all()
