"""Float32 as two float16: products against float64, to a few millionths."""

import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from dataclasses import replace

from antiphon.nn.kernels import window_attention
from antiphon.nn.kernels.causal_conv import ConvWeights, KernelConfig, causal_conv
from antiphon.nn.kernels.split import split
from antiphon.nn.kernels.stream_columns import Rows
from antiphon.nn.kernels.window_attention import KVRing, attend_window
from antiphon.nn.layers import Snake
from tests.nn.kernels.test_conv_kernels import (
    CONFIG,
    OFFSET,
    attended,
    convolved,
    joined_of,
    pasts_of,
    rows_of,
    snake_of,
    snaked,
    table_for,
)

pytestmark = pytest.mark.gpu

TOLERANCE = 4e-6
"""Of the largest number; a product of float16 differs by a thousand times that."""
ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Of each term of a sum, a product or a sine in float32."""


def assert_close(actual: Tensor, expected: Tensor) -> None:
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=allowed_error(expected))


def allowed_error(expected: Tensor) -> float:
    """Return what a sum of products in parts may differ by."""
    return TOLERANCE * expected.abs().max().item()


def assert_snaked(actual: Tensor, x: Tensor, snake: Snake) -> None:
    """Check the snake of numbers near ``x``: it multiplies their error by its slope at most.

    That is ``1 + amplitude * frequency * sin(2 * frequency * x)``. Its own terms are rounded, among
    them the sine's argument.
    """
    assert actual.dtype == torch.float32
    amplitude, frequency = snake.amplitude.double().abs(), snake.frequency.double().abs()
    inherited = allowed_error(x) * (1 + amplitude * frequency)
    own = ROUNDING * (x.abs() + amplitude * (1 + frequency * x.abs()))
    error = (actual.double() - snaked(x, snake)).abs()
    assert (error <= inherited + own).all(), (error - inherited - own).max().item()


def conv_of(num_taps: int, num_in: int, num_out: int, dilation: int) -> tuple[ConvWeights, Tensor]:
    weight = random(num_taps * num_in, num_out, seed=1) * (num_taps * num_in) ** -0.5
    high, rest = split(weight)
    conv = ConvWeights(high, random(num_out, seed=2), num_taps, dilation, OFFSET, rest)
    return conv, weight


def test_parts_are_the_number() -> None:
    numbers = torch.tensor([0.0, -3.14159265, 1e-3, 60_000.25, 7e4, -1e9], device=DEVICE)
    high, rest = split(numbers)
    assert high.dtype == rest.dtype == torch.float16
    expected = numbers.clamp(-65504, 65504)
    torch.testing.assert_close(high.float() + rest.float(), expected, rtol=1e-6, atol=3e-8)


@pytest.mark.parametrize("config", [CONFIG, KernelConfig(128, 64, 128, 4, 3)])
@pytest.mark.parametrize("num_in", [24, 96])
def test_a_convolution_of_parts(config: KernelConfig, num_in: int) -> None:
    lengths, num_out = (2, 5, 1), 48
    x, residual = random(16, num_in), random(16, num_out, seed=5)
    (conv, weight), snake = conv_of(7, num_in, num_out, dilation=3), snake_of(num_out)
    rows = rows_of(lengths, conv.num_before, num_in)
    rows = replace(rows, memory=random(*rows.memory.shape, seed=9))
    joined = joined_of(x, pasts_of(rows, lengths, conv.num_before, num_in), lengths)
    result, active = causal_conv(x, conv, rows, config, residual=residual, snake=snake)
    expected = convolved(joined, replace(conv, weight=weight)) + residual
    assert_close(result, expected)
    assert_snaked(active, expected, snake)
    kept = pasts_of(rows, lengths, conv.num_before, num_in, is_next=True)
    assert all(torch.equal(each, row[-18:]) for each, row in zip(kept, joined, strict=True))
    if config is not CONFIG and DEVICE.type == "cuda":  # tiles change no bit
        again, _ = causal_conv(x, conv, rows, CONFIG, residual=residual)
        assert torch.equal(again, result)


@pytest.mark.parametrize("num_at_once", [16, 64])
def test_a_window_of_keys_in_parts(num_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_attention, "_MAX_KEYS_AT_ONCE", num_at_once)
    monkeypatch.setattr(window_attention, "_KEYS_OF_MANY", num_at_once)
    head_dim, window, num_keys, num_heads = 16, 34, 40, 2
    ring = KVRing(0, num_keys, window, num_heads, num_heads, head_dim)
    stream = random(96, 3 * num_heads * head_dim)
    angles = torch.arange(96, device=DEVICE)[:, None] * random(8, seed=2).abs()
    rotation = torch.cat((angles.cos(), angles.sin()), dim=-1)
    memory, parts, start = random(2, num_keys * 2 * num_heads * head_dim, seed=3), [], 0
    for length in (1, 7, 4, *[7] * 12):
        table = table_for([length], [0], [start])
        rows = Rows(memory, table, rotation[start : start + length], length)
        parts.append(attend_window(stream[start : start + length].contiguous(), ring, rows))
        start += length
    assert start == 96
    assert_close(torch.cat(parts), attended(stream, rotation, num_heads, num_heads, window))
