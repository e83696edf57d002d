"""Convolutions of many channels and columns on Hopper's matrix instructions (`wide_conv.cu`).

A program has the same sums as `antiphon.nn.kernels.causal_conv`, in the same order: a result is the
same, bit by bit, whichever of them has computed it.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib import import_module

import torch
from torch import Tensor

from antiphon.nn.cuda.compiler import Program, checked, load_product, runs_on, source_of
from antiphon.nn.cuda.resident_limits import NUM_BLOCKS
from antiphon.nn.kernels.stream_columns import Rows
from antiphon.nn.layers import Snake

_FILES = ("device.cuh", "wide_conv.cu")
_INPUTS, _GROUPS, _NUM_THREADS = 64, 2, 512
"""Inputs of a step, warpgroups that multiply, and threads of all."""
_MULTIPROCESSORS, _MIN_TILES = 132, 96  # so that most multiprocessors have one
_ALIGNMENT = 16  # bytes of addresses
_Map = ctypes.c_ubyte * 128


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
        ("weight", _Map),
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
    arguments = _Arguments(
        _map_of(weight.data_ptr(), *weight.shape, tile),
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
    size = tile.n // 2
    sums = ", ".join(f"%{index}" for index in range(size))
    outputs = ", ".join(f'"+f"(acc[{index}])' for index in range(size))
    instruction = f"wgmma.mma_async.sync.aligned.m64n{tile.n}k16.f32.f16.f16"
    product = f"""
DEVICE void product(float (&acc)[{size}], u64 a, u64 b, int adds) {{
    asm volatile("{{.reg .pred p;\\n setp.ne.b32 p, %{size + 2}, 0;\\n"
        "{instruction} {{{sums}}}, %{size}, %{size + 1}, p, 1, 1, 0, 1;}}"
        : {outputs} : "l"(a), "l"(b), "r"(adds));
}}
"""
    return source_of(_FILES).replace("GENERATED_PRODUCT", product)


@lru_cache(maxsize=256)
def _map_of(address: int, depth: int, width: int, tile: Tile) -> "ctypes.Array[ctypes.c_ubyte]":
    """Return a tensor map of weights ``[depth, width]``, in boxes of a step."""
    driver = import_module("cuda.bindings.driver")
    swizzle = driver.CUtensorMapSwizzle
    box = (tile.wide, _INPUTS)
    (found,) = checked(
        driver.cuTensorMapEncodeTiled(
            driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            len(box),
            address,
            [driver.cuuint64_t(size) for size in (width, depth)],
            [driver.cuuint64_t(2 * width)],
            [driver.cuuint32_t(size) for size in box],
            [driver.cuuint32_t(1)] * len(box),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle.CU_TENSOR_MAP_SWIZZLE_128B
            if tile.wide == _INPUTS
            else swizzle.CU_TENSOR_MAP_SWIZZLE_64B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return _Map.from_buffer_copy(_Map.from_address(found.getPtr()))
