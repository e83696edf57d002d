"""Wide convolutions as programs: compilation and choice anywhere, bits on a GPU."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.nn.codec_layers.frame_table import empty_table, fill
from antiphon.nn.cuda import compiler, wide_conv
from antiphon.nn.cuda.wide_conv import _TIMES, Tile, _Arguments, _tile_of, definitions_of, source
from antiphon.nn.kernels import causal_conv
from antiphon.nn.kernels.causal_conv import ConvWeights
from antiphon.nn.kernels.kernel_configs import config_of
from antiphon.nn.kernels.stream_columns import Rows
from antiphon.nn.layers import Snake
from tests.nn.cuda.test_packing import SHARED_BYTES, layout_of, needs_compiler

HALF, OFFSET = torch.float16, 64
TILES = list(_TIMES)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@needs_compiler
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_programs_compile_fit_and_have_the_structure_that_they_are_given(tile: Tile) -> None:
    claims = (
        *layout_of("Arguments", _Arguments),
        f"Layout::end <= {SHARED_BYTES}",
        f"COLS == {tile.columns} && WIDE == {tile.wide} && NUM_THREADS == {wide_conv._NUM_THREADS}",
        "256 * REGISTERS + (NUM_THREADS - 256) * FEW_REGISTERS <= 65536",
    )
    checks = "\n".join(f'static_assert({claim}, "{claim}");' for claim in claims)
    macros = definitions_of(tile, has_residual=True, keeps_sum=True)
    assert compiler.compiled(f"{source(tile)}\n{checks}", macros)


def test_a_tile_divides_the_outputs_and_most_multiprocessors_have_one() -> None:
    for columns in (32, 256, 1024, 8192, 40960):
        for num_in, num_out, taps in ((768, 768, 7), (192, 288, 2), (384, 384, 1), (1536, 6144, 2)):
            tile = _tile_of(columns, num_in, num_out, taps)
            if tile is not None:
                assert num_out % tile.n == 0
                assert (
                    tile.num_blocks(columns, num_out) * tile.columns * tile.n >= columns * num_out
                )
    assert _tile_of(256, 768, 768, 7) is None, "few columns"
    assert _tile_of(8192, 96, 768, 7) is None, "no whole steps"
    assert _tile_of(8192, 768, 80, 7) is None, "no whole tiles"
    assert _tile_of(8192, 768, 768, 1) is None, "the kernel is as fast"


class Case:
    """A convolution of random numbers for streams of several frames."""

    def __init__(self, shape: tuple[int, ...], lengths: list[int], *, is_end: bool) -> None:
        num_in, num_out, taps, dilation, rate = shape
        depth, num_frames = taps * num_in, sum(lengths)
        weight = (random(depth, num_out) * depth**-0.5).to(HALF).cuda()
        self.conv = ConvWeights(weight, random(num_out, seed=1).cuda(), taps, dilation, OFFSET)
        rates, sizes = random(num_out, seed=2).exp(), random(num_out, seed=3).abs()
        self.snake = Snake(rates.cuda(), sizes.cuda())
        self.x = random(num_frames * rate, num_in, seed=4).to(HALF).cuda()
        addend = random(num_frames * rate, num_out, seed=5).to(HALF).cuda()
        self.residual, self.keeps_sum = addend if is_end else None, is_end
        size = OFFSET + 2 * self.conv.num_before * num_in
        self.memory = random(len(lengths) + 1, size, seed=6).to(HALF).cuda()
        table = empty_table(num_frames, torch.device("cpu"))
        fill(table.numpy(), [*enumerate(lengths)], num_frames, len(lengths), max(lengths))
        turns = torch.arange(len(lengths), dtype=torch.int32) % 2
        table[4, :num_frames] = turns.repeat_interleave(torch.tensor(lengths))
        rotation = torch.empty(num_frames, 0).cuda()
        self.rows = Rows(self.memory, table.cuda(), rotation, max(lengths))

    def results(self) -> tuple[Tensor, ...]:
        """Return what a call returns and keeps, from the same memory each time."""
        memory = self.memory.clone()
        both = causal_conv.causal_conv(
            self.x,
            self.conv,
            replace(self.rows, memory=memory),
            config_of(self.conv, len(self.x)),
            residual=self.residual,
            snake=self.snake,
            keeps_sum=self.keeps_sum,
        )
        return *both, memory


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "is_end"),
    [
        ((768, 768, 7, 9, 32), False),
        ((1024, 1536, 7, 1, 4), True),
        ((192, 288, 2, 1, 640), True),
        ((384, 384, 7, 3, 160), False),
    ],
)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_programs_have_the_bits_of_the_kernel_in_ragged_rows(
    shape: tuple[int, ...], is_end: bool, tile: Tile, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not torch.cuda.is_available() or not compiler.runs_on(torch.device("cuda"), 1):
        pytest.skip("needs an H100 or H200, and NVIDIA's run-time compiler")
    if shape[1] % tile.n:
        pytest.skip("the outputs are no whole tiles")
    case = Case(shape, [1, 3, 2, 12, 1, 1, 7, 5], is_end=is_end)
    monkeypatch.setattr(wide_conv, "_tile_of", lambda *_: None)
    expected = case.results()
    monkeypatch.setattr(wide_conv, "_tile_of", lambda *_: tile)
    for actual, other in zip(case.results(), expected, strict=True):
        assert torch.equal(actual, other)
