"""Residual units as programs: packed weights and compilation anywhere, results on a GPU."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.nn.codec_layers.frame_table import empty_table, fill
from antiphon.nn.codec_layers.fused import FusedUpsamplingBlock
from antiphon.nn.cuda import codec_conv, compiler
from antiphon.nn.cuda.codec_conv import (
    _TILES,
    UnitProgram,
    _Arguments,
    definitions_of,
    is_served,
    packed_unit,
    source,
    unit_program,
    with_programs,
)
from antiphon.nn.kernels.causal_conv import ConvWeights
from antiphon.nn.kernels.residual_unit import UnitWeights
from antiphon.nn.layers import Snake
from tests.nn.cuda.test_packing import SHARED_BYTES, layout_of, needs_compiler

NUM_TAPS, OFFSET = 7, 64


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def multiplied(inputs: Tensor, matrices: Tensor, num_outputs: int) -> Tensor:
    """Multiply by a stage as `wgmma` reads it: matrices of 8 outputs x 8 inputs, outputs first."""
    factors = matrices.view(-1, num_outputs // 8, 8, 8).permute(0, 3, 1, 2)
    return inputs @ factors.reshape(-1, num_outputs)


def channels_of(sums: Tensor) -> Tensor:
    """Return channels in order from sums in a thread's order (accumulators of PTX's wgmma)."""
    quads = sums.view(len(sums), -1, 4, 4, 2)  # groups of 32, blocks of 8, quarter, pair
    return quads.transpose(2, 3).flatten(1)


@pytest.mark.parametrize("width", [96, 192])
def test_stages_multiply_as_both_weights(width: int) -> None:
    tile = _TILES[width]
    first, second = random(NUM_TAPS * width, width), random(width, width, seed=1)
    columns = random(NUM_TAPS, 5, width, seed=2).double()
    stages = packed_unit(first, second).double().view(-1, tile["KC"] * width)
    sums = torch.zeros(5, width, dtype=torch.float64)
    step = 0
    for start in range(0, width, tile["KC"]):
        for tap in range(NUM_TAPS):
            sums += multiplied(columns[tap, :, start : start + tile["KC"]], stages[step], width)
            step += 1
    expected = torch.einsum("tnc,tco->no", columns, first.view(NUM_TAPS, width, width).double())
    torch.testing.assert_close(channels_of(sums), expected)
    # The second product takes its inputs in the order in which the first one has left them.
    parts = [channels_of(multiplied(sums, each, tile["N2"])) for each in stages[step:]]
    torch.testing.assert_close(torch.cat(parts, dim=1), expected @ second.double())


@needs_compiler
@pytest.mark.parametrize(("width", "rate"), [(96, 1920), (192, 640)])
def test_units_compile_fit_and_have_the_structure_that_they_are_given(
    width: int, rate: int
) -> None:
    claims = (*layout_of("Arguments", _Arguments), f"Layout::end <= {SHARED_BYTES}")
    checks = "\n".join(f'static_assert({claim}, "{claim}");' for claim in claims)
    macros = definitions_of(width, NUM_TAPS, dilation=9, rate=rate, keeps_sum=True)
    assert compiler.compiled(f"{source(width)}\n{checks}", macros)


def block_of(width: int, stride: int) -> FusedUpsamplingBlock:
    half, snake = torch.float16, Snake(torch.ones(width), torch.ones(width))
    pointwise = ConvWeights(torch.zeros(width, width, dtype=half), torch.zeros(width))
    weight, bias = torch.zeros(NUM_TAPS * width, width, dtype=half), torch.zeros(width)
    units = tuple(
        UnitWeights(ConvWeights(weight, bias, NUM_TAPS, dilation, 64 * dilation), snake, pointwise)
        for dilation in (1, 3, 9)
    )
    return FusedUpsamplingBlock(pointwise, stride, units, (snake,) * 4)


def test_blocks_that_are_served_get_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(codec_conv, "runs_on", lambda *_: True)
    monkeypatch.setattr(codec_conv, "unit_program", lambda *_, **how: made.append(how))
    wide, uneven, served = block_of(384, 32), block_of(96, 1), block_of(192, 4)
    float32 = block_of(192, 1)
    exact = replace(float32, sum_dtype=torch.float32)
    first = float32.units[0]
    factors = replace(first.dilated, rest=first.dilated.weight)
    split = replace(float32, units=(replace(first, dilated=factors),) * 3)
    blocks = (wide, uneven, served, exact, split)
    found = with_programs(blocks, columns=5)
    changed = [index for index, block in enumerate(blocks) if found[index] is not block]
    assert changed == [2]
    assert (found[2].units, len(found[2].programs)) == ((), 3)
    assert made == [
        {"dilation": dilation, "rate": 640, "offset": 64 * dilation, "keeps_sum": dilation < 9}
        for dilation in (1, 3, 9)
    ]


def test_units_run_as_kernels_where_no_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise compiler.CompilationError("the driver is older")

    block = block_of(96, 1920)
    assert with_programs((block,), columns=1)[0] is block, "a CPU has none"
    monkeypatch.setattr(codec_conv, "runs_on", lambda *_: True)
    monkeypatch.setattr(codec_conv, "unit_program", fails)
    assert with_programs((block,), columns=1)[0] is block


@pytest.fixture(params=[96, 192])
def unit(request: pytest.FixtureRequest) -> tuple[UnitProgram, "Unit"]:
    device = torch.device("cuda")
    if not torch.cuda.is_available() or not compiler.runs_on(device, 1):
        pytest.skip("needs an H100 or H200, and NVIDIA's run-time compiler")
    made = Unit(request.param)
    return made.program(), made


class Unit:
    """A residual unit of random weights, and its lines in float32."""

    dilation, rate = 9, 128

    def __init__(self, width: int) -> None:
        self.width = width
        half = torch.float16
        self.first = (random(NUM_TAPS * width, width) * (NUM_TAPS * width) ** -0.5).cuda().to(half)
        self.second = (random(width, width, seed=1) * width**-0.5).cuda().to(half)
        self.biases = [random(width, seed=seed).cuda() for seed in (2, 3)]
        self.snakes = [
            Snake(random(width, seed=seed).exp().cuda(), random(width, seed=seed + 1).abs().cuda())
            for seed in (4, 6)
        ]
        self.num_before = (NUM_TAPS - 1) * self.dilation
        assert is_served(self.first, width, NUM_TAPS, self.rate)

    def program(self) -> UnitProgram:
        (low, high), (early, late) = self.biases, self.snakes
        return unit_program(
            (self.first, self.second),
            ((low, early), (high, late)),
            dilation=self.dilation,
            rate=self.rate,
            offset=OFFSET,
            keeps_sum=True,
        )

    def memory(self, num_slots: int) -> Tensor:
        size = OFFSET + 2 * self.num_before * self.width
        return random(num_slots, size, seed=9).cuda().to(torch.float16)

    def expected(self, joined: Tensor, residual: Tensor) -> Tensor:
        weight = self.first.float().view(NUM_TAPS, self.width, self.width)
        length = len(joined) - self.num_before
        total = self.biases[0].expand(length, -1)
        for tap in range(NUM_TAPS):
            total = total + joined[tap * self.dilation :][:length].float() @ weight[tap]
        hidden: Tensor = self.snakes[0](total).half().float()
        result: Tensor = hidden @ self.second.float() + self.biases[1] + residual.float()
        return result


def table_of(lengths: list[int], turns: list[int]) -> Tensor:
    size = sum(lengths)
    table = empty_table(size, torch.device("cpu"))
    fill(table.numpy(), [*enumerate(lengths)], size, len(lengths), max(lengths))
    table[4, :size] = torch.tensor(turns).repeat_interleave(torch.tensor(lengths))
    return table.cuda()


@pytest.mark.gpu
def test_a_unit_is_two_convolutions_in_any_grouping(unit: tuple[UnitProgram, Unit]) -> None:
    program, made = unit
    lengths, turns, before = [2, 1, 4], [0, 1, 1], made.num_before
    num_columns = sum(lengths) * made.rate
    x = random(num_columns, made.width, seed=10).cuda().half()
    residual = random(num_columns, made.width, seed=11).cuda().half()
    memory = made.memory(len(lengths) + 1)
    copies = memory[:, OFFSET:].view(-1, 2, before, made.width)
    past = copies.clone()
    result, following = program(x, residual, memory, table_of(lengths, turns))
    ends = torch.tensor(lengths).cumsum(0) * made.rate
    for row, (end, length) in enumerate(zip(ends.tolist(), lengths, strict=True)):
        span = slice(end - length * made.rate, end)
        joined = torch.cat((past[row, turns[row]], x[span]))
        expected = made.expected(joined, residual[span])
        assert (result[span] - expected).norm() < 2e-3 * expected.norm()
        active = made.snakes[1](expected)
        assert (following[span] - active).norm() < 2e-3 * active.norm()
        assert torch.equal(copies[row, 1 - turns[row]], joined[-before:])
        assert torch.equal(copies[row, turns[row]], past[row, turns[row]])
    alone = made.memory(len(lengths) + 1)[2:].contiguous()
    start, turn, parts = 3 * made.rate, turns[2], []
    for length in (1, 3):
        span = slice(start, start + length * made.rate)
        parts.append(program(x[span], residual[span], alone, table_of([length], [turn]))[1])
        start, turn = span.stop, 1 - turn
    assert torch.equal(torch.cat(parts), following[3 * made.rate :])
