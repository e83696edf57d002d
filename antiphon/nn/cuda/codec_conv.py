"""Residual units of a codec, one launch each, on Hopper's matrix instructions (`codec_conv.cu`).

The Triton kernels read each column once per tap, and the weights once per 64 columns; the L2 cache
limits them. Here a block reads columns once, and weights once per 128 columns or once per launch.
"""

import ctypes
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from antiphon.nn.codec_layers.fused import FusedUpsamplingBlock
from antiphon.nn.cuda.compiler import CompilationError, Program, load_program, runs_on, source_of
from antiphon.nn.layers import Snake

logger = logging.getLogger(__name__)
_FILES = ("device.cuh", "codec_conv.cu")
_COLUMNS = 128
_NUM_THREADS = 2 * _COLUMNS + 128
_GROUP, _CORE = 32, 8
"""Outputs among which a thread has neighbours, and the edge of a matrix in shared memory."""
_TILES: Mapping[int, Mapping[str, int]] = {
    96: {"KC": 96, "N2": 96, "RESIDENT": 1, "STAGES": 1},
    192: {"KC": 64, "N2": 64, "RESIDENT": 0, "STAGES": 4},
}


class _Arguments(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in (
            "x", "memory", "table", "weights", "bias", "frequency", "amplitude",
            "bias2", "frequency2", "amplitude2", "residual", "result", "active",
        )),
        *((name, ctypes.c_int) for name in (
            "num_columns", "num_frames", "size", "row_size", "offset",
        )),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class UnitProgram:
    """Residual unit compiled for its sizes, with packed weights.

    Attributes:
        rate: columns per frame.
        offset: offset of the preceding columns in a slot's memory.
        keeps_sum: whether the sum is returned beside its activation.
        held: packed weights, then bias, frequency and amplitude of both products.
    """

    program: Program
    rate: int
    offset: int
    keeps_sum: bool
    held: tuple[Tensor, ...]

    def __call__(
        self, active: Tensor, residual: Tensor, memory: Tensor, table: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Convolve twice, add and activate; store the last columns for the next call.

        Args:
            active: float16 ``[num_frames * rate, channels]``.
            residual: addend of the same shape and type.
            memory: states of streams, float16 ``[num_slots, row_size]``, laid out by `StateLayout`:
                columns are read 16 bytes at a time.

        Returns:
            The sum and the activated sum; the latter twice if the sum is not wanted.
        """
        assert active.is_contiguous()
        assert residual.is_contiguous()
        assert active.dtype == residual.dtype == memory.dtype == torch.float16
        following = torch.empty_like(active)
        result = torch.empty_like(active) if self.keeps_sum else following
        tensors = (active, memory, table, *self.held, residual, result, following)
        num_columns = len(active)
        arguments = _Arguments(
            *(each.data_ptr() for each in tensors),
            num_columns,
            num_columns // self.rate,
            table.stride(0),
            memory.stride(0),
            self.offset,
        )
        self.program.launch_early(-(-num_columns // _COLUMNS), arguments)
        return result, following


def with_programs(
    blocks: Sequence[FusedUpsamplingBlock], columns: int
) -> tuple[FusedUpsamplingBlock, ...]:
    """Replace the units of blocks by programs where they are served.

    Args:
        columns: columns per frame before the first one.
    """
    found = []
    for block in blocks:
        columns *= block.stride
        found.append(_with_programs(block, columns))
    return tuple(found)


def _with_programs(block: FusedUpsamplingBlock, rate: int) -> FusedUpsamplingBlock:
    first = block.units[0].dilated
    if block.sum_dtype is not None or first.rest is not None:
        return block
    if not is_served(first.weight, first.num_out, first.num_taps, rate):
        return block
    try:
        programs = tuple(_programs(block, rate))
    except CompilationError as error:  # an older compiler or driver: kernels do the same
        logger.warning("residual units run as kernels, since their program failed: %s", error)
        return block
    return replace(block, units=(), snakes=block.snakes[:1], programs=programs)


def _programs(block: FusedUpsamplingBlock, rate: int) -> Iterator[UnitProgram]:
    for unit, snake in zip(block.units, block.snakes[1:], strict=True):
        dilated, pointwise = unit.dilated, unit.pointwise
        assert dilated.bias is not None
        assert pointwise.bias is not None
        yield unit_program(
            (dilated.weight, pointwise.weight),
            ((dilated.bias, unit.snake), (pointwise.bias, snake)),
            dilation=dilated.dilation,
            rate=rate,
            offset=dilated.offset,
            keeps_sum=unit is not block.units[-1],
        )


def is_served(like: Tensor, num_channels: int, num_taps: int, rate: int) -> bool:
    """Return whether the program supports a unit's sizes, type and device."""
    is_sized = num_channels in _TILES and num_taps > 1 and rate % _COLUMNS == 0
    return is_sized and like.dtype == torch.float16 and runs_on(like.device, 1)


def unit_program(
    weights: tuple[Tensor, Tensor],
    ends: tuple[tuple[Tensor, Snake], tuple[Tensor, Snake]],
    *,
    dilation: int,
    rate: int,
    offset: int,
    keeps_sum: bool,
) -> UnitProgram:
    """Compile and pack a unit that `is_served`; raises CompilationError.

    Args:
        weights: float16 ``[num_taps * channels, channels]``, and of the second product
            ``[channels, channels]``.
        ends: float32 bias and snake after each product.
        dilation: distance of two taps of the first product.
        rate: columns per frame.
        offset: offset of the two copies of preceding columns in a slot's memory.
        keeps_sum: whether the sum is returned beside its activation.
    """
    first, second = weights
    width, device = second.shape[0], first.device
    program = _program(width, len(first) // width, dilation, rate, keeps_sum, device)
    numbers = [each for bias, snake in ends for each in (bias, snake.frequency, snake.amplitude)]
    # A tensor of their own: the program reads 16 bytes at a time, and a bias may be part of a file.
    held = (packed_unit(first, second), *torch.stack([each.float() for each in numbers]).unbind())
    # A launch reads them before the kernels before it have ended.
    torch.cuda.current_stream(device).synchronize()
    return UnitProgram(program, rate, offset, keeps_sum, held)


@cache
def _program(
    width: int, num_taps: int, dilation: int, rate: int, keeps_sum: bool, device: torch.device
) -> Program:
    definitions = definitions_of(width, num_taps, dilation=dilation, rate=rate, keeps_sum=keeps_sum)
    num_blocks = torch.cuda.get_device_properties(device).multi_processor_count
    macros = {**definitions, "BLOCKS": num_blocks}
    return load_program(source(width), "codec_conv", macros, _NUM_THREADS, device)


def definitions_of(
    width: int, num_taps: int, *, dilation: int, rate: int, keeps_sum: bool
) -> dict[str, int]:
    """Return the program's macros for a unit."""
    return {
        **{"IN": width, "OUT": width, "N": width, "TAPS": num_taps, "DIL": dilation, "RATE": rate},
        **{"COLS": _COLUMNS, "HALOS": 2, "FUSED": 1, "HAS_RESIDUAL": 1},
        "KEEPS_SUM": int(keeps_sum),
        **_TILES[width],
    }


def source(width: int) -> str:
    """Return the program's source text for a number of channels."""
    products = _product("product_first", width) + _product("product_second", _TILES[width]["N2"])
    return source_of(_FILES).replace("GENERATED_PRODUCTS", products)


def _product(name: str, width: int) -> str:
    """Return a function that multiplies 64 columns by 16 inputs x ``width`` outputs."""
    size = width // 2
    sums = ", ".join(f"%{index}" for index in range(size))
    outputs = ", ".join(f'"+f"(acc[{index}])' for index in range(size))
    inputs = ", ".join(f"%{size + index}" for index in range(4))
    instruction = f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.f16.f16"
    return f"""
DEVICE void {name}(float (&acc)[{size}], const u32 (&a)[4], u64 b, int adds) {{
    asm volatile("{{.reg .pred p;\\n setp.ne.b32 p, %{size + 5}, 0;\\n"
        "{instruction} {{{sums}}}, {{{inputs}}}, %{size + 4}, p, 1, 1, 0;}}"
        : {outputs} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}}
"""


def packed_unit(first: Tensor, second: Tensor) -> Tensor:
    """Return both weights in the order of the program's stages, one after the other."""
    width = second.shape[0]
    tile, order = _TILES[width], _positions(width, first.device)
    taps = first.view(-1, width, width)[:, :, order]
    stages = [stage for chunk in torch.split(taps, tile["KC"], dim=1) for stage in chunk]
    part = tile["N2"]
    inner = _positions(part, first.device)
    stages += [each[:, inner] for each in torch.split(second[order], part, dim=1)]
    return torch.cat([_matrices(stage) for stage in stages])


def _positions(width: int, device: torch.device) -> Tensor:
    """Return the channel of each position: a thread's sums become neighbouring channels."""
    position = torch.arange(width, device=device)
    within = position % _GROUP
    return position - within + within % _CORE // 2 * _CORE + within // _CORE * 2 + within % 2


def _matrices(stage: Tensor) -> Tensor:
    """Return ``[inputs, outputs]`` as matrices of 8 outputs x 8 inputs, outputs innermost."""
    num_inputs, num_outputs = stage.shape
    tiles = stage.reshape(num_inputs // _CORE, _CORE, num_outputs // _CORE, _CORE)
    return tiles.permute(0, 2, 3, 1).flatten()
