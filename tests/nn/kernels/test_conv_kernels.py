"""The codec's kernels against PyTorch lines in float64, on a GPU or in Triton's interpreter."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from tests.kernels import DEVICE, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.codec_layers.frame_table import empty_table, fill
from antiphon.nn.kernels.causal_conv import ConvWeights, KernelConfig, causal_conv
from antiphon.nn.kernels.codec_io import begin_frames, depthwise_norm, samples
from antiphon.nn.kernels.kernel_configs import NORM_CONFIG
from antiphon.nn.kernels.residual_unit import UnitWeights, is_fusible, residual_unit, unit_layout
from antiphon.nn.kernels.stream_columns import Rows
from antiphon.nn.kernels.window_attention import KVRing, attend_window
from antiphon.nn.layers import Snake

pytestmark = pytest.mark.gpu

HALF = torch.float16
TOLERANCE = 4e-3
"""Of numbers around one, rounded to float16."""
OFFSET = 64
CONFIG = KernelConfig(64, 32, 32, 4, 3)


def _table(
    rows: list[tuple[int, int]], size: int, padding_slot: int, max_row_frames: int
) -> torch.Tensor:
    table = empty_table(size, torch.device("cpu"))
    fill(table.numpy(), rows, size, padding_slot, max_row_frames)
    return table.to(DEVICE)


def table_for(lengths: Sequence[int], turns: Sequence[int], positions: Sequence[int]) -> Tensor:
    """Return a whole table of rows out of order; the slot of row ``k`` of ``n`` is ``n - k``."""
    num_frames = sum(lengths)
    slots = range(len(lengths), 0, -1)
    table = _table([*zip(slots, lengths, strict=True)], num_frames, 0, max(lengths))
    places = table[1, :num_frames]
    repeats = torch.tensor(lengths, device=DEVICE)
    for field, values in ((4, turns), (5, positions)):
        of_rows = torch.tensor(values, dtype=torch.int32, device=DEVICE)
        table[field, :num_frames] = of_rows.repeat_interleave(repeats)
    table[5, :num_frames] += places
    return table


def rows_of(
    lengths: Sequence[int], num_before: int, width: int, *, turns: Sequence[int] | None = None
) -> Rows:
    """Return rows of as many frames, each with something in both copies of its past."""
    memory = random(len(lengths) + 2, OFFSET + 2 * num_before * width, seed=9).to(HALF)
    turns = [row % 2 for row in range(len(lengths))] if turns is None else turns
    table = table_for(lengths, turns, [0] * len(lengths))
    rotation = torch.empty(sum(lengths), 0, device=DEVICE)
    return Rows(memory, table, rotation, max(lengths))


def pasts_of(
    rows: Rows, lengths: Sequence[int], num_before: int, width: int, *, is_next: bool = False
) -> list[Tensor]:
    """Return one of the two copies of each row, ``[num_before, width]``."""
    slots = range(len(lengths), 0, -1)
    first = torch.tensor([0, *lengths[:-1]]).cumsum(0)
    turns = rows.table[4, first.to(DEVICE)].tolist()
    return [
        rows.memory[slot, OFFSET:].view(2, num_before, width)[1 - turn if is_next else turn].clone()
        for slot, turn in zip(slots, turns, strict=True)
    ]


def joined_of(x: Tensor, pasts: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
    """Return the columns of each row behind its past."""
    rate = len(x) // sum(lengths)
    parts = torch.split(x, [rate * length for length in lengths])
    return [torch.cat(each) for each in zip(pasts, parts, strict=True)]


def convolved(joined: Sequence[Tensor], conv: ConvWeights) -> Tensor:
    """Return what rows are convolved to without padding, one below the other, in float64."""
    weight = conv.weight.double().view(conv.num_taps, conv.num_in, conv.num_out)
    results = []
    for x in joined:
        length = len(x) - conv.num_before
        taps = (
            x.double()[tap * conv.dilation : tap * conv.dilation + length] @ weight[tap]
            for tap in range(conv.num_taps)
        )
        results.append(torch.stack([*taps]).sum(0))
    total = torch.cat(results)
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
    ("num_taps", "dilation", "widths", "lengths", "rate"),
    [
        (7, 3, (32, 48), (2, 5, 1), 2),
        (7, 1, (24, 40), (70, 3), 1),
        (2, 1, (16, 32), (1, 1, 1), 3),
        (1, 1, (48, 16), (4, 5), 1),
    ],
)
def test_a_convolution_reads_and_keeps_its_past(
    num_taps: int, dilation: int, widths: tuple[int, int], lengths: tuple[int, ...], rate: int
) -> None:
    num_in, num_out = widths
    x = random(sum(lengths) * rate, num_in).to(HALF)
    conv, snake = conv_of(num_taps, *widths, dilation=dilation), snake_of(num_out)
    rows = rows_of(lengths, conv.num_before, num_in)
    pasts = pasts_of(rows, lengths, conv.num_before, num_in)
    joined = joined_of(x, pasts, lengths)
    residual = random(len(x), num_out, seed=5).to(HALF)
    result, active = causal_conv(x, conv, rows, CONFIG, residual=residual, snake=snake)
    expected = convolved(joined, conv) + residual
    assert_close(result, expected)
    assert_close(active, snaked(expected, snake))
    if conv.num_before:
        kept = pasts_of(rows, lengths, conv.num_before, num_in, is_next=True)
        for each, row in zip(kept, joined, strict=True):
            assert torch.equal(each, row[-conv.num_before :])
        again = pasts_of(rows, lengths, conv.num_before, num_in)
        assert all(torch.equal(*each) for each in zip(again, pasts, strict=True))


def test_more_rows_than_are_kept_at_a_time() -> None:
    lengths = [1, 2] * 40
    x, conv = random(sum(lengths), 16).to(HALF), conv_of(3, 16, 16)
    rows = rows_of(lengths, conv.num_before, 16)
    joined = joined_of(x, pasts_of(rows, lengths, conv.num_before, 16), lengths)
    result, _ = causal_conv(x, conv, rows, CONFIG)
    assert_close(result, convolved(joined, conv))
    kept = pasts_of(rows, lengths, conv.num_before, 16, is_next=True)
    assert all(torch.equal(each, row[-2:]) for each, row in zip(kept, joined, strict=True))


@pytest.mark.parametrize("activation", ["", "gelu", "gate"])
def test_activations_of_normed_columns(activation: str) -> None:
    x, conv = random(10, 32).to(HALF), conv_of(1, 32, 64)
    conv = replace(conv, bias=None)
    result, _ = causal_conv(
        x, conv, rows_of([7, 3], 0, 32), CONFIG, activation=activation, norm_epsilon=1e-5
    )
    wide = x.double()
    expected = convolved([wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)], conv)
    if activation == "gelu":
        expected = F.gelu(expected)
    elif activation == "gate":
        expected = F.silu(expected[..., ::2]) * expected[..., 1::2]
    assert_close(result, expected)


def test_many_inputs_of_normed_columns_are_not_overwritten_early() -> None:
    x, conv = random(4, 256).to(HALF), replace(conv_of(1, 256, 128), bias=None)
    rows = rows_of([4], 0, 256)
    wide = x.double()
    expected = convolved([wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)], conv)
    for _ in range(50 if x.is_cuda else 1):  # which of two is first, differs
        assert_close(causal_conv(x, conv, rows, NORM_CONFIG, norm_epsilon=1e-5)[0], expected)


@pytest.mark.parametrize(
    "config", [KernelConfig(64, 16, 16, 4, 2), KernelConfig(128, 64, 32, 4, 3)]
)
def test_neither_tile_nor_grouping_nor_company_changes_a_bit(config: KernelConfig) -> None:
    lengths, num_columns = (4, 12, 5), 12
    x, conv = random(21, 32).to(HALF), conv_of(7, 32, 48)
    rows = rows_of(lengths, conv.num_before, 32)
    expected = causal_conv(x, conv, rows, CONFIG)[0][4:16]
    memory = rows_of(lengths, conv.num_before, 32).memory[1:].contiguous()  # of slot 2 is 1 now
    parts = []
    for number, part in enumerate(torch.split(x[4:16], [1, 4, 7])):
        row = rows_of([len(part)], conv.num_before, 32, turns=[(1 + number) % 2])
        row = replace(row, memory=memory)
        parts.append(causal_conv(part.contiguous(), conv, row, config)[0])
    assert sum(len(part) for part in parts) == num_columns
    if DEVICE.type == "cuda":  # the interpreter adds as NumPy does, by shape
        assert torch.equal(torch.cat(parts), expected)
    assert_close(torch.cat(parts), expected.double())


@pytest.mark.parametrize("width", [48, 96, 192])
@pytest.mark.parametrize("keeps_sum", [True, False])
def test_a_residual_unit_is_two_convolutions(width: int, keeps_sum: bool) -> None:
    assert is_fusible(width)
    lengths = (2, 1, 6)
    active, x = random(18, width).to(HALF), random(18, width, seed=1).to(HALF)
    unit = UnitWeights(
        conv_of(7, width, width, dilation=9),
        snake_of(width),
        unit_layout(conv_of(1, width, width, seed=7)),
    )
    snake = snake_of(width, seed=11)
    rows = rows_of(lengths, unit.dilated.num_before, width)
    pasts = pasts_of(rows, lengths, unit.dilated.num_before, width)
    joined = joined_of(active, pasts, lengths)
    config = KernelConfig(64, 0, 32, 4, 3)
    result, following = residual_unit(
        active, x, unit, rows, config, snake=snake, keeps_sum=keeps_sum
    )
    hidden = snaked(convolved(joined, unit.dilated), unit.snake).to(HALF)
    expected = convolved([hidden], unit.pointwise) + x
    assert_close(following, snaked(expected, snake))
    if keeps_sum:
        assert_close(result, expected)
    kept = pasts_of(rows, lengths, unit.dilated.num_before, width, is_next=True)
    for each, row in zip(kept, joined, strict=True):
        assert torch.equal(each, row[-unit.dilated.num_before :])


def test_what_float16_cannot_hold_is_cut_off() -> None:
    x = torch.full((2, 32), 6e4, device=DEVICE, dtype=HALF)
    conv = ConvWeights(torch.ones(32, 16, device=DEVICE, dtype=HALF), None)
    result, _ = causal_conv(x, conv, rows_of([2], 0, 32), CONFIG)
    assert (result == torch.finfo(HALF).max).all()


def test_depthwise_convolution_and_norm() -> None:
    lengths = (3, 8)
    x, kernel, bias = random(22, 40).to(HALF), random(7, 40, seed=1), random(40, seed=2)
    norm = random(40, seed=3), random(40, seed=4)
    rows = rows_of(lengths, 6, 40)
    joined = joined_of(x, pasts_of(rows, lengths, 6, 40), lengths)
    conv = ConvWeights(kernel.to(HALF), bias, offset=OFFSET)
    result = depthwise_norm(x, conv, rows, norm, 1e-6)
    taps = conv.weight.double().T[:, None]
    channels = torch.cat(
        [F.conv1d(row.double().T, taps, bias.double(), groups=40).T for row in joined]
    )
    weight, shift = (each.double() for each in norm)
    assert_close(result, F.layer_norm(channels, (40,), weight, shift, 1e-6))
    kept = pasts_of(rows, lengths, 6, 40, is_next=True)
    assert all(torch.equal(each, row[-6:]) for each, row in zip(kept, joined, strict=True))


def test_samples() -> None:
    lengths = (1, 34)
    x = random(140, 40).to(HALF)
    conv = replace(conv_of(7, 40, 1), weight=random(280, 1, seed=6) * 0.05)
    rows = rows_of(lengths, 6, 40)
    joined = joined_of(x, pasts_of(rows, lengths, 6, 40), lengths)
    expected = convolved(joined, conv)[..., 0].clamp(-1, 1)
    torch.testing.assert_close(samples(x, conv, rows).double(), expected, rtol=0, atol=1e-5)


def test_frames_begin_where_their_streams_are() -> None:
    codes = torch.tensor([[0, 3], [9, -1], [2, 2], [1, 0]], device=DEVICE)
    tables, radians = random(2, 4, 24).to(HALF), random(8, seed=1).abs()
    table = _table([(2, 1), (0, 2)], 4, padding_slot=3, max_row_frames=2)
    turns = torch.tensor([1, 0, 0, 0], dtype=torch.int32, device=DEVICE)
    positions = torch.tensor([7, 5, 0, 30], device=DEVICE)
    streams = (torch.zeros(4, 64, device=DEVICE), turns, positions)
    sums, rows = begin_frames(codes, tables, radians, table, streams, 2)
    clamped = codes.clamp(0, 3)
    expected = tables[0].double()[clamped[..., 0]] + tables[1].double()[clamped[..., 1]]
    assert_close(sums, expected)
    assert rows.table[4, :4].tolist() == [0, 1, 1, 0]
    assert rows.table[5, :4].tolist() == [0, 7, 8, 30]
    assert turns.tolist() == [0, 0, 1, 1]
    assert positions.tolist() == [9, 5, 1, 31]
    angles = rows.table[5, :4, None] * radians
    rotation = torch.cat((angles.cos(), angles.sin()), dim=-1)
    torch.testing.assert_close(rows.rotation, rotation, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(2, 2), (4, 2)])
def test_a_window_of_keys_is_the_same_in_any_grouping(num_heads: int, num_kv_heads: int) -> None:
    head_dim, window, num_keys, num_frames = 16, 6, 16, 23
    ring = KVRing(0, num_keys, window, num_heads, num_kv_heads, head_dim)
    width = (num_heads + 2 * num_kv_heads) * head_dim
    streams = random(2, num_frames, width).to(HALF)
    angles = torch.arange(num_frames, device=DEVICE)[:, None] * random(8, seed=2).abs()
    rotation = torch.cat((angles.cos(), angles.sin()), dim=-1)
    memory = random(3, num_keys * 2 * num_kv_heads * head_dim, seed=3).to(HALF)
    parts: list[list[Tensor]] = [[], []]
    starts = [0, 0]
    for lengths in ((1, 8), (8, 1), (3, 11), (11, 3)):
        ends = [sum(each) for each in zip(starts, lengths, strict=True)]
        spans = [slice(*each) for each in zip(starts, ends, strict=True)]
        now = Rows(
            memory,
            table_for(lengths, [0, 0], starts),
            torch.cat([rotation[span] for span in spans]),
            max(lengths),
        )
        joined = torch.cat([stream[span] for stream, span in zip(streams, spans, strict=True)])
        results = torch.split(attend_window(joined, ring, now), [*lengths])
        for part, row in zip(parts, results, strict=True):
            part.append(row)
        starts = ends
    for stream, part in zip(streams, parts, strict=True):
        expected = attended(stream, rotation, num_heads, num_kv_heads, window)
        assert_close(torch.cat(part), expected)


def attended(
    stream: Tensor, rotation: Tensor, num_heads: int, num_kv_heads: int, window: int
) -> Tensor:
    """Return what a whole stream attends to, ``[n, num_heads * 16]``, in float64."""
    num_frames = len(stream)
    heads = stream.double().view(num_frames, -1, 16)
    cosines, sines = (each.double()[:, None].repeat(1, 1, 2) for each in rotation.chunk(2, -1))
    turned = torch.cat((-heads[..., 8:], heads[..., :8]), dim=-1) * sines + heads * cosines
    queries, keys = turned[:, :num_heads], turned[:, num_heads : num_heads + num_kv_heads]
    distance = torch.arange(num_frames)[:, None] - torch.arange(num_frames)
    result = F.scaled_dot_product_attention(
        queries.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        heads[:, num_heads + num_kv_heads :].transpose(0, 1)[None],
        attn_mask=((distance >= 0) & (distance < window)).to(DEVICE),
        enable_gqa=num_heads != num_kv_heads,
    )
    return result[0].transpose(0, 1).flatten(1)
