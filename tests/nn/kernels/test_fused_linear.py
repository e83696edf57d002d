"""Fused products against the PyTorch lines they stand for, on a GPU or in Triton's interpreter."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from tests.kernels import random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.cuda.int8_linear import ScaledLinear
from antiphon.nn.kernels import fused_linear
from antiphon.nn.kernels.fused_linear import FusedLinear, scale
from antiphon.nn.kernels.product_tiles import WideTile
from antiphon.nn.kernels.wide_product import arrivals_of
from antiphon.nn.layers import Linear

pytestmark = pytest.mark.gpu

EPSILON = 1e-6
WIDTH, NUM_OUTPUTS = 192, 96
ROWS = (1, 3, 5, 9, 70)


def normed(states: Tensor, norm: Tensor) -> Tensor:
    return norm * states * torch.rsqrt(states.square().mean(-1, keepdim=True) + EPSILON)


def assert_close(result: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("num_rows", ROWS)
@pytest.mark.parametrize("product", [FusedLinear(), FusedLinear(is_batch_invariant=True)])
def test_products_are_what_they_stand_for(product: FusedLinear, num_rows: int) -> None:
    states, norm = random(num_rows, WIDTH), random(WIDTH, seed=1)
    weight = random(NUM_OUTPUTS, WIDTH, seed=2)
    bias = random(NUM_OUTPUTS, seed=3)
    wide = normed(states, norm) @ weight.T
    gate, up = wide.chunk(2, dim=-1)
    scaled = scale(states, norm)
    assert_close(product.plain(states, weight), states @ weight.T)
    assert_close(product.plain(states, weight, bias), states @ weight.T + bias)
    assert_close(product.normed(scaled, weight, EPSILON), wide)
    assert_close(product.normed(scaled, weight, EPSILON, bias), wide + bias)
    assert_close(product.normed(scaled, weight, EPSILON, is_gated=True), F.silu(gate) * up)


@pytest.mark.parametrize("num_rows", ROWS)
@pytest.mark.parametrize("product", [FusedLinear(), FusedLinear(is_batch_invariant=True)])
def test_a_sum_is_ready_for_the_next_norm(product: FusedLinear, num_rows: int) -> None:
    states, inputs = random(num_rows, WIDTH), random(num_rows, NUM_OUTPUTS, seed=1)
    weight, next_norm = random(WIDTH, NUM_OUTPUTS, seed=2), random(WIDTH, seed=3)
    after = random(NUM_OUTPUTS, WIDTH, seed=4)
    expected = states + inputs @ weight.T
    result = product.added(states, inputs, weight, next_norm)
    assert_close(result.states, expected)
    assert_close(product.normed(result, after, EPSILON), normed(expected, next_norm) @ after.T)


def int8(*shape: int, seed: int) -> ScaledLinear:
    weight = random(*shape, seed=seed)
    return ScaledLinear.pack(Linear(weight), weight)


def whole(linear: ScaledLinear) -> Tensor:
    assert linear.scales is not None
    return linear.weight * linear.scales[:, None]


@pytest.mark.parametrize("num_rows", ROWS)
@pytest.mark.parametrize("product", [FusedLinear(), FusedLinear(is_batch_invariant=True)])
def test_products_with_int8_weights(product: FusedLinear, num_rows: int) -> None:
    states, norm = random(num_rows, WIDTH), random(WIDTH, seed=1)
    first, second = int8(NUM_OUTPUTS, WIDTH, seed=2), int8(WIDTH, NUM_OUTPUTS, seed=3)
    bias = random(NUM_OUTPUTS, seed=4)
    wide = normed(states, norm) @ whole(first).T
    gate, up = wide.chunk(2, dim=-1)
    scaled = scale(states, norm)
    assert_close(product.normed(scaled, first, EPSILON, bias), wide + bias)
    assert_close(product.normed(scaled, first, EPSILON, is_gated=True), F.silu(gate) * up)
    added = product.added(states, wide, second, norm)
    assert_close(added.states, states + wide @ whole(second).T)
    assert_close(second(wide), wide @ whole(second).T)


@pytest.mark.parametrize("num_rows", [5, 30])
def test_a_product_of_few_outputs_with_int8_weights(num_rows: int) -> None:
    states, inputs, linear = random(num_rows, 64), random(num_rows, 2048), int8(64, 2048, seed=2)
    halves = states.half(), inputs.half(), linear, random(64, seed=3).half()
    result = FusedLinear().added(*halves)
    expected = states + inputs @ whole(linear).T
    torch.testing.assert_close(result.states.float(), expected, rtol=0.01, atol=0.5)


@pytest.mark.parametrize("num_rows", [9, 17, 40])
def test_a_gated_product_of_many_outputs(num_rows: int) -> None:
    states, norm = random(num_rows, 64).half(), random(64, seed=1).half()
    weight = random(2 * 4096, 64, seed=2).half()  # the interpreter multiplies no bfloat16
    product = FusedLinear().normed(scale(states, norm), weight, EPSILON, is_gated=True)
    gate, up = (normed(states.float(), norm.float()) @ weight.float().T).chunk(2, dim=-1)
    torch.testing.assert_close(product.float(), F.silu(gate) * up, rtol=0.01, atol=0.5)


@pytest.mark.parametrize("num_rows", [5, 16, 30])
@pytest.mark.parametrize("num_inputs", [2048, 3072])
def test_a_product_of_few_outputs(num_inputs: int, num_rows: int) -> None:
    states, inputs = random(num_rows, 64), random(num_rows, num_inputs, seed=1)
    weight, next_norm = random(64, num_inputs, seed=2), random(64, seed=3)
    after = random(48, 64, seed=4)
    halves = [each.half() for each in (states, inputs, weight, next_norm)]
    result = FusedLinear().added(*halves)
    expected = states + inputs @ weight.T
    torch.testing.assert_close(result.states.float(), expected, rtol=0.01, atol=0.5)
    wide = FusedLinear().normed(result, after.half(), EPSILON)
    torch.testing.assert_close(
        wide.float(), normed(expected, next_norm) @ after.T, rtol=0.01, atol=0.1
    )


@pytest.mark.parametrize("num_rows", [5, 30])
def test_a_bias_of_a_product_of_few_outputs(num_rows: int) -> None:
    inputs, weight = random(num_rows, 2048), random(64, 2048, seed=1)
    bias = 50 * random(64, seed=2)
    result = FusedLinear().plain(inputs.half(), weight.half(), bias.half())
    torch.testing.assert_close(result.float(), inputs @ weight.T + bias, rtol=0.01, atol=0.5)


def test_the_last_position_of_each_run() -> None:
    states, norm = random(6, WIDTH), random(WIDTH, seed=1)
    last = scale(states, norm).last(3)
    assert torch.equal(last.states, states[[2, 5]])
    assert torch.equal(last.scaled, scale(states[[2, 5]], norm).scaled)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batch_invariant_rows_do_not_notice_their_company(dtype: torch.dtype) -> None:
    product = FusedLinear(is_batch_invariant=True)
    states, norm = random(130, WIDTH).to(dtype), random(WIDTH, seed=1).to(dtype)
    weight = random(NUM_OUTPUTS, WIDTH, seed=2).to(dtype)
    together = product.normed(scale(states, norm), weight, EPSILON)
    for row in (0, 63, 64, 129):
        alone = product.normed(scale(states[row : row + 1], norm), weight, EPSILON)
        assert torch.equal(alone[0], together[row])


@pytest.mark.parametrize(("num_rows", "splits"), [(9, 2), (9, 3), (21, 4)])
def test_programs_share_the_inputs(
    num_rows: int, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = WideTile(16, 32, 32, 4, 2, splits)
    monkeypatch.setattr(fused_linear, "wide_tile", lambda *shape: tile)
    states, norm = random(num_rows, WIDTH), random(WIDTH, seed=1)
    weight, bias = random(2 * 64, WIDTH, seed=2), random(2 * 64, seed=3)
    scaled, product = scale(states, norm), FusedLinear()
    wide = normed(states, norm) @ weight.T
    gate, up = wide.chunk(2, dim=-1)
    assert_close(product.normed(scaled, weight, EPSILON, bias), wide + bias)
    assert_close(product.normed(scaled, weight, EPSILON, is_gated=True), F.silu(gate) * up)
    before = random(num_rows, 2 * 64, seed=4)
    after = product.added(before, states, weight, bias)
    assert_close(after.states, before + states @ weight.T)
    assert_close(after.scaled, bias * (before + states @ weight.T))
    assert_close(after.squares.sum(1), after.states.square().sum(1))
    assert not arrivals_of(states, 1).any(), "counters are left as they were found"


def test_rows_of_shared_inputs_do_not_notice_their_company(monkeypatch: pytest.MonkeyPatch) -> None:
    tile = WideTile(16, 32, 32, 4, 2, splits=4)
    monkeypatch.setattr(fused_linear, "wide_tile", lambda *shape: tile)
    states, weight = random(21, WIDTH), random(64, WIDTH, seed=1)
    together = FusedLinear().plain(states, weight)
    for rows in (slice(5, 10), slice(16, 21)):
        assert torch.equal(FusedLinear().plain(states[rows], weight), together[rows])


def test_many_inputs_of_few_outputs_are_shared() -> None:
    states, inputs = random(40, 64), random(40, 4096, seed=1)
    weight, next_norm = random(64, 4096, seed=2), random(64, seed=3)
    halves = [each.half() for each in (states, inputs, weight, next_norm)]
    result = FusedLinear().added(*halves)
    torch.testing.assert_close(
        result.states.float(), states + inputs @ weight.T, rtol=0.01, atol=0.5
    )
