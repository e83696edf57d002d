"""The codec's kernels against PyTorch lines in float64, on a GPU or in Triton's interpreter."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from tests.kernels import why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.kernels.causal_conv import ConvWeights, KernelConfig, Rows, causal_conv
from antiphon.nn.kernels.codec_io import begin_frames, depthwise_norm, samples
from antiphon.nn.kernels.residual_unit import UnitWeights, is_fusible, residual_unit, unit_layout
from antiphon.nn.kernels.window_attention import KVRing, attend_window
from antiphon.nn.layers import Snake

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HALF = torch.float16
TOLERANCE = 4e-3
"""Of numbers around one, rounded to float16."""
OFFSET = 64
CONFIG = KernelConfig(64, 32, 32, 4, 3)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def rows_of(num_rows: int, num_before: int, width: int, seed: int = 9) -> Rows:
    """Return rows out of order, each with something in both copies of its past."""
    slots = torch.arange(num_rows, 0, -1, device=DEVICE)
    memory = random(num_rows + 2, OFFSET + 2 * num_before * width, seed=seed).to(HALF)
    turns = (torch.arange(num_rows, device=DEVICE) % 2).int()
    return Rows(memory, slots, turns, torch.zeros_like(slots), torch.empty(0, device=DEVICE))


def past_of(rows: Rows, num_before: int, width: int, *, is_next: bool = False) -> Tensor:
    """Return one of the copies of each row, ``[num_rows, num_before, width]``."""
    copies = rows.memory[rows.slots, OFFSET:].view(len(rows.slots), 2, num_before, width)
    turns = rows.turns.long()
    return copies[torch.arange(len(turns)), 1 - turns if is_next else turns]


def convolved(x: Tensor, conv: ConvWeights) -> Tensor:
    """Return what is convolved without padding, ``[B, t - num_before, num_out]``, in float64."""
    length = x.shape[1] - conv.num_before
    weight = conv.weight.double().view(conv.num_taps, conv.num_in, conv.num_out)
    total = sum(
        x.double()[:, tap * conv.dilation : tap * conv.dilation + length] @ weight[tap]
        for tap in range(conv.num_taps)
    )
    assert isinstance(total, Tensor)
    return total if conv.bias is None else total + conv.bias.double()


def snaked(x: Tensor, snake: Snake) -> Tensor:
    return x + snake.amplitude * torch.sin(snake.frequency * x) ** 2


def conv_of(
    num_taps: int, num_in: int, num_out: int, dilation: int = 1, seed: int = 1
) -> ConvWeights:
    scale = (num_taps * num_in) ** -0.5
    weight = (random(num_taps * num_in, num_out, seed=seed) * scale).to(HALF)
    return ConvWeights(weight, random(num_out, seed=seed + 1), num_taps, dilation, OFFSET)


def snake_of(width: int, seed: int = 3) -> Snake:
    return Snake(random(width, seed=seed).exp(), random(width, seed=seed + 1).abs())


def assert_close(actual: Tensor, expected: Tensor) -> None:
    scale = expected.abs().max().item()
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=TOLERANCE * scale)


@pytest.mark.parametrize(
    ("num_taps", "dilation", "widths", "length"),
    [(7, 3, (32, 48), 5), (7, 1, (24, 40), 70), (2, 1, (16, 32), 3), (1, 1, (48, 16), 9)],
)
def test_a_convolution_reads_and_keeps_its_past(
    num_taps: int, dilation: int, widths: tuple[int, int], length: int
) -> None:
    x = random(3, length, widths[0]).to(HALF)
    conv, snake = conv_of(num_taps, *widths, dilation=dilation), snake_of(widths[1])
    rows = rows_of(3, conv.num_before, widths[0])
    before = past_of(rows, conv.num_before, widths[0]) if conv.num_before else x[:, :0]
    joined = torch.cat((before, x), dim=1)
    residual = random(3, length, widths[1], seed=5).to(HALF)
    result, active = causal_conv(x, conv, rows, CONFIG, residual=residual, snake=snake)
    expected = convolved(joined, conv) + residual
    assert_close(result, expected)
    assert_close(active, snaked(expected, snake))
    if conv.num_before:
        kept = past_of(rows, conv.num_before, widths[0], is_next=True)
        assert torch.equal(kept, joined[:, -conv.num_before :])
        assert torch.equal(past_of(rows, conv.num_before, widths[0]), before)


@pytest.mark.parametrize("activation", ["", "gelu", "gate"])
def test_activations_of_normed_columns(activation: str) -> None:
    x, conv = random(2, 5, 32).to(HALF), conv_of(1, 32, 64)
    conv = replace(conv, bias=None)
    result, _ = causal_conv(
        x, conv, rows_of(2, 0, 32), CONFIG, activation=activation, norm_epsilon=1e-5
    )
    wide = x.double()
    expected = convolved(wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5), conv)
    if activation == "gelu":
        expected = F.gelu(expected)
    elif activation == "gate":
        expected = F.silu(expected[..., ::2]) * expected[..., 1::2]
    assert_close(result, expected)


@pytest.mark.parametrize(
    "config", [KernelConfig(64, 16, 16, 4, 2), KernelConfig(128, 64, 32, 4, 3)]
)
def test_neither_tile_nor_grouping_nor_company_changes_a_bit(config: KernelConfig) -> None:
    x, conv = random(3, 12, 32).to(HALF), conv_of(7, 32, 48)
    rows = rows_of(3, conv.num_before, 32)
    whole, _ = causal_conv(x, conv, rows, CONFIG)
    alone = rows_of(3, conv.num_before, 32)
    parts = []
    for part in torch.split(x[1:2], [1, 4, 7], dim=1):
        row = replace(alone, slots=alone.slots[1:2], turns=alone.turns[1:2])
        parts.append(causal_conv(part.contiguous(), conv, row, config)[0])
        alone = replace(alone, turns=1 - alone.turns)
    if DEVICE.type == "cuda":  # the interpreter adds as NumPy does, by shape
        assert torch.equal(torch.cat(parts, dim=1)[0], whole[1])
    assert_close(torch.cat(parts, dim=1)[0], whole[1].double())


@pytest.mark.parametrize("width", [48, 96, 192])
@pytest.mark.parametrize("keeps_sum", [True, False])
def test_a_residual_unit_is_two_convolutions(width: int, keeps_sum: bool) -> None:
    assert is_fusible(width)
    active, x = random(2, 9, width).to(HALF), random(2, 9, width, seed=1).to(HALF)
    unit = UnitWeights(
        conv_of(7, width, width, dilation=9),
        snake_of(width),
        unit_layout(conv_of(1, width, width, seed=7)),
    )
    snake = snake_of(width, seed=11)
    rows = rows_of(2, unit.dilated.num_before, width)
    joined = torch.cat((past_of(rows, unit.dilated.num_before, width), active), dim=1)
    config = KernelConfig(64, 0, 32, 4, 3)
    result, following = residual_unit(
        active, x, unit, rows, config, snake=snake, keeps_sum=keeps_sum
    )
    hidden = snaked(convolved(joined, unit.dilated), unit.snake).to(HALF)
    expected = convolved(hidden, unit.pointwise) + x
    assert_close(following, snaked(expected, snake))
    if keeps_sum:
        assert_close(result, expected)
    kept = past_of(rows, unit.dilated.num_before, width, is_next=True)
    assert torch.equal(kept, joined[:, -unit.dilated.num_before :])


def test_what_float16_cannot_hold_is_cut_off() -> None:
    x = torch.full((1, 2, 32), 6e4, device=DEVICE, dtype=HALF)
    conv = ConvWeights(torch.ones(32, 16, device=DEVICE, dtype=HALF), None)
    result, _ = causal_conv(x, conv, rows_of(1, 0, 32), CONFIG)
    assert (result == torch.finfo(HALF).max).all()


def test_depthwise_convolution_and_norm() -> None:
    x, kernel, bias = random(2, 4, 40).to(HALF), random(7, 40, seed=1), random(40, seed=2)
    norm = random(40, seed=3), random(40, seed=4)
    rows = rows_of(2, 6, 40)
    joined = torch.cat((past_of(rows, 6, 40), x), dim=1)
    conv = ConvWeights(kernel.to(HALF), bias, offset=OFFSET)
    result = depthwise_norm(x, conv, rows, norm, 1e-6)
    channels = F.conv1d(
        joined.double().transpose(1, 2), conv.weight.double().T[:, None], bias.double(), groups=40
    )
    weight, shift = (each.double() for each in norm)
    assert_close(result, F.layer_norm(channels.transpose(1, 2), (40,), weight, shift, 1e-6))
    assert torch.equal(past_of(rows, 6, 40, is_next=True), joined[:, -6:])


def test_samples() -> None:
    x = random(2, 70, 40).to(HALF)
    conv = replace(conv_of(7, 40, 1), weight=random(280, 1, seed=6) * 0.05)
    rows = rows_of(2, 6, 40)
    joined = torch.cat((past_of(rows, 6, 40), x), dim=1)
    expected = convolved(joined, conv)[..., 0].clamp(-1, 1)
    torch.testing.assert_close(samples(x, conv, rows).double(), expected, rtol=0, atol=1e-5)


def test_frames_begin_where_their_streams_are() -> None:
    codes = torch.tensor([[[0, 3], [9, -1]], [[2, 2], [1, 0]]], device=DEVICE)
    tables, radians = random(2, 4, 24).to(HALF), random(8, seed=1).abs()
    slots = torch.tensor([2, 0], device=DEVICE)
    turns = torch.tensor([1, 0, 0], dtype=torch.int32, device=DEVICE)
    positions = torch.tensor([7, 5, 0], device=DEVICE)
    memory = torch.zeros(3, 64, device=DEVICE)
    sums, rows = begin_frames(codes, tables, radians, slots, (memory, turns, positions))
    clamped = codes.clamp(0, 3)
    expected = tables[0].double()[clamped[..., 0]] + tables[1].double()[clamped[..., 1]]
    assert_close(sums, expected)
    assert rows.turns.tolist() == [0, 1]
    assert rows.starts.tolist() == [0, 7]
    assert turns.tolist() == [0, 0, 1]
    assert positions.tolist() == [9, 5, 2]
    angles = (rows.starts[:, None] + torch.arange(2, device=DEVICE))[..., None] * radians
    rotation = torch.cat((angles.cos(), angles.sin()), dim=-1)
    torch.testing.assert_close(rows.rotation, rotation, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(2, 2), (4, 2)])
def test_a_window_of_keys_is_the_same_in_any_grouping(num_heads: int, num_kv_heads: int) -> None:
    head_dim, window, num_keys, num_frames = 16, 6, 16, 23
    ring = KVRing(0, num_keys, window, num_heads, num_kv_heads, head_dim)
    joined = random(1, num_frames, (num_heads + 2 * num_kv_heads) * head_dim).to(HALF)
    angles = torch.arange(num_frames, device=DEVICE)[:, None] * random(8, seed=2).abs()
    rotation = torch.cat((angles.cos(), angles.sin()), dim=-1)[None]
    memory = random(2, num_keys * 2 * num_kv_heads * head_dim, seed=3).to(HALF)
    slots, turns = torch.tensor([1], device=DEVICE), torch.zeros(1, dtype=torch.int32)
    parts, start = [], 0
    for size in (1, 8, 3, 11):
        starts = torch.tensor([start], device=DEVICE)
        end = start + size
        now = Rows(memory, slots, turns, starts, rotation[:, start:end].contiguous())
        parts.append(attend_window(joined[:, start:end].contiguous(), ring, now))
        start = end
    heads = joined[0].double().view(num_frames, -1, head_dim)
    cosines, sines = (each.double()[:, None].repeat(1, 1, 2) for each in rotation[0].chunk(2, -1))
    turned = torch.cat((-heads[..., 8:], heads[..., :8]), dim=-1) * sines + heads * cosines
    queries, keys = turned[:, :num_heads], turned[:, num_heads : num_heads + num_kv_heads]
    distance = torch.arange(num_frames)[:, None] - torch.arange(num_frames)
    expected = F.scaled_dot_product_attention(
        queries.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        heads[:, num_heads + num_kv_heads :].transpose(0, 1)[None],
        attn_mask=((distance >= 0) & (distance < window)).to(DEVICE),
        enable_gqa=num_heads != num_kv_heads,
    )
    assert_close(torch.cat(parts, dim=1)[0], expected[0].transpose(0, 1).flatten(1))
