"""Convolutions of many channels and columns on Hopper's matrix instructions (`wide_conv.cu`).

A program has the same sums as `antiphon.nn.kernels.causal_conv`, in the same order: a result is the
same, bit by bit, whichever of them has computed it.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache

import torch
from torch import Tensor

from antiphon.nn.cuda.compiler import Program, load_product, runs_on, source_of
from antiphon.nn.cuda.resident_limits import NUM_BLOCKS
from antiphon.nn.cuda.tensor_cores import TensorMap, tensor_map, with_product
from antiphon.nn.kernels.stream_columns import Rows
from antiphon.nn.layers import Snake

_FILES = ("device.cuh", "wide_conv.cu")
_INPUTS, _GROUPS, _NUM_THREADS = 64, 2, 512
"""Inputs of a step, warpgroups that multiply, and threads of all."""
_MULTIPROCESSORS, _MIN_TILES = 132, 96  # so that most multiprocessors have one
_ALIGNMENT = 16  # bytes of addresses


@dataclass(frozen=True, slots=True)
class Tile:
    """How a convolution is cut; attributes are the program's macros.

    Attributes:
        matrices: matrices of 64 columns of a warpgroup.
        n: outputs.
        stages: steps in shared memory.
    """

    matrices: int
    n: int
    stages: int

    @property
    def columns(self) -> int:
        return 64 * self.matrices * _GROUPS

    @property
    def wide(self) -> int:
        """Outputs that are swizzled together."""
        return 64 if self.n % 64 == 0 else 32

    def num_blocks(self, num_columns: int, num_outputs: int) -> int:
        return -(-num_columns // self.columns) * (num_outputs // self.n)


_TIMES: dict[Tile, tuple[float, float]] = {
    # Microseconds of a step, and of the end of a tile, on an H200.
    Tile(1, 192, 4): (0.53, 3.5),
    Tile(2, 128, 3): (0.7, 6.5),
    Tile(1, 96, 6): (0.34, 2.2),
}


class _Arguments(ctypes.Structure):
    _fields_ = [
        ("weight", TensorMap),
        *((name, ctypes.c_void_p) for name in (
            "x", "memory", "table", "bias", "frequency", "amplitude",
            "residual", "result", "active",
        )),
        *((name, ctypes.c_int) for name in (
            "num_columns", "rate", "size", "row_size", "offset",
            "num_in", "num_out", "num_taps", "dilation",
        )),
        ("unused", ctypes.c_int * 5),  # up to a multiple of the map's alignment
    ]  # fmt: skip


def wide_conv(
    x: Tensor,
    factors: tuple[Tensor, Tensor, Snake],
    taps: tuple[int, int, int],
    rows: Rows,
    residual: Tensor | None,
    *,
    keeps_sum: bool,
) -> tuple[Tensor, Tensor] | None:
    """Convolve, add and activate as `causal_conv` does; ``None``: there is no program for it.

    Args:
        factors: weight, bias and snake.
        taps: their number and dilation, and the offset of preceding columns in a slot's memory.
    """
    weight, bias, snake = factors
    num_taps, dilation, offset = taps
    (num_columns, num_in), num_out = x.shape, weight.shape[1]
    tile = _tile_of(num_columns, num_in, num_out, num_taps)
    others = (bias, snake.frequency, snake.amplitude, x if residual is None else residual)
    tensors = (x, rows.memory, rows.table, *others)
    is_half = x.dtype == weight.dtype == rows.memory.dtype == torch.float16
    if tile is None or not is_half or not _are_aligned(tensors, offset, rows.memory.stride(0)):
        return None
    kind = (tile, residual is not None, keeps_sum, x.device)
    program = _program(*kind) if runs_on(x.device, NUM_BLOCKS) else None
    if program is None:
        return None
    active = result = x.new_empty(num_columns, num_out)
    if keeps_sum:
        result = torch.empty_like(active)
    outputs, inputs = (num_out, 2, tile.wide), (len(weight), 2 * num_out, _INPUTS)
    arguments = _Arguments(
        tensor_map(weight.data_ptr(), weight.dtype, outputs, inputs),
        *(each.data_ptr() for each in (*tensors, result, active)),
        *(num_columns, num_columns // rows.num_frames, rows.table.stride(0)),
        *(rows.memory.stride(0), offset, num_in, num_out, num_taps, dilation),
    )
    program.launch_early(tile.num_blocks(num_columns, num_out), arguments)
    return result, active


def _are_aligned(tensors: Sequence[Tensor], offset: int, row_size: int) -> bool:
    """Return whether tensors, and columns in a slot's memory, can be read 16 bytes at a time."""
    are_aligned = all(each.data_ptr() % _ALIGNMENT == 0 for each in tensors)
    return are_aligned and 2 * offset % _ALIGNMENT == 0 and 2 * row_size % _ALIGNMENT == 0


@lru_cache(maxsize=1024)
def _tile_of(num_columns: int, num_in: int, num_out: int, num_taps: int) -> Tile | None:
    """Return the fastest tile, ``None`` if the kernel is expected to be faster."""
    if num_taps == 1 or num_in % _INPUTS != 0:
        return None  # a single tap is memory-bound
    steps, times = num_taps * num_in // _INPUTS, {}
    for tile, (step_us, end_us) in _TIMES.items():
        num_blocks = tile.num_blocks(num_columns, num_out)
        if num_out % tile.n == 0 and num_blocks >= _MIN_TILES:
            times[tile] = -(-num_blocks // _MULTIPROCESSORS) * (steps * step_us + end_us)
    return min(times, key=lambda tile: times[tile], default=None)


@cache
def _program(
    tile: Tile, has_residual: bool, keeps_sum: bool, device: torch.device
) -> Program | None:
    macros = definitions_of(tile, has_residual=has_residual, keeps_sum=keeps_sum)
    count = torch.cuda.get_device_properties(device).multi_processor_count
    return load_product(source(tile), "wide_conv", macros | {"BLOCKS": count}, _NUM_THREADS, device)


def definitions_of(tile: Tile, *, has_residual: bool, keeps_sum: bool) -> dict[str, int]:
    """Return the program's macros."""
    macros = {name.upper(): value for name, value in asdict(tile).items()}
    return macros | {"HAS_RESIDUAL": int(has_residual), "KEEPS_SUM": int(keeps_sum)}


def source(tile: Tile) -> str:
    """Return the program's source text, with the instruction for a tile's outputs."""
    return with_product(source_of(_FILES), tile.n, "f16", is_transposed=True)
