"""Products of many rows on a Hopper GPU, fused with the norm before and the gate or sum after.

A program copies weights before its rows are ready, and multiplies by `wgmma` (`many_rows.cu`). A
row's result is the same to the bit in any number of rows. It is the fastest for 9 to 64 rows;
products that must not depend on the number of rows have it for any.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache

import torch
from torch import Tensor

from antiphon.nn.cuda.compiler import Program, load_product, runs_on, source_of
from antiphon.nn.cuda.resident_limits import NUM_BLOCKS
from antiphon.nn.cuda.tensor_cores import TensorMap, tensor_map, with_product
from antiphon.nn.kernels.product_tiles import Factors, Fused, ProductShape

_FILES = ("device.cuh", "many_rows.cu")
_TILE_ROWS = 64
"""Rows of a matrix instruction."""
_ROWS = range(9, _TILE_ROWS + 1)
"""More than `few_rows` takes, up to a tile."""
_CHUNK = 64
"""Inputs that are swizzled together: 128 bytes."""


@dataclass(frozen=True, slots=True)
class _Config:
    """How a product is cut.

    Attributes:
        n: weights of an input in a block, of both halves of a gated product together.
        splits: blocks of a cluster, which share the inputs.
        groups: warpgroups of a block, which share the steps.
        weight_stages: steps of weights in shared memory: all, or a multiple of ``groups``.
        row_stages: steps of rows in shared memory: all, or a multiple of ``groups``.
        chunks: chunks of 64 inputs of a step, which one instruction copies.
    """

    n: int
    splits: int
    groups: int
    weight_stages: int
    row_stages: int
    chunks: int


_CONFIGS: Mapping[tuple[int, int, int], _Config] = {
    # By outputs, inputs and halves: Qwen3-TTS of both sizes and its predictor, found on an H200
    # by the time of all layers at 16, 32 and 64 rows.
    (4096, 2048, 1): _Config(64, 2, 1, 7, 4, 2),
    (2048, 2048, 1): _Config(32, 2, 1, 8, 4, 2),
    (6144, 2048, 2): _Config(96, 1, 2, 8, 8, 1),
    (2048, 6144, 1): _Config(32, 2, 1, 15, 4, 2),
    (4096, 1024, 1): _Config(64, 2, 1, 4, 4, 2),
    (1024, 2048, 1): _Config(16, 2, 2, 4, 4, 4),
    (3072, 1024, 2): _Config(48, 2, 1, 2, 4, 2),
    (1024, 3072, 1): _Config(32, 4, 1, 4, 4, 2),
    (2048, 1024, 1): _Config(32, 2, 1, 4, 4, 2),
    # MiMo-Audio, whose wide gated product is as fast as a kernel, and the decoder of its groups,
    # two of whose products are also of VoxCPM2's flow.
    (6144, 4096, 1): _Config(96, 2, 2, 8, 8, 1),
    (4096, 4096, 1): _Config(64, 2, 1, 7, 4, 2),
    (4096, 11008, 1): _Config(64, 2, 1, 7, 4, 2),
    (3072, 1024, 1): _Config(48, 2, 1, 4, 4, 2),
    (1024, 1024, 1): _Config(16, 2, 2, 4, 4, 2),
    (4096, 1024, 2): _Config(64, 2, 1, 4, 4, 1),
    (1024, 4096, 1): _Config(32, 4, 1, 4, 4, 2),
    (2880, 1024, 1): _Config(48, 2, 1, 2, 4, 2),
}


class _Arguments(ctypes.Structure):
    _fields_ = [
        *((name, TensorMap) for name in ("inputs", "weight")),
        *((name, ctypes.c_void_p) for name in (
            "squares", "states", "next_norm", "result", "scaled", "parts",
        )),
        ("epsilon", ctypes.c_float),
        *((name, ctypes.c_int) for name in ("num_rows", "num_parts", "part_stride")),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ManyRowsTile:
    """Program of a product.

    Attributes:
        outputs: outputs of which a sum of squares is written.
    """

    program: Program
    shape: ProductShape
    config: _Config
    outputs: int

    def multiply(
        self,
        inputs: Tensor,
        weights: Factors,
        norm: tuple[Tensor, float] | None,
        added: tuple[Tensor, Tensor] | None,
        targets: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """Launch the program; see `FewRowsTile.multiply`."""
        squares, epsilon = norm or (targets[2], 0.0)
        weight, _, bias = weights
        states, next_norm = added or (inputs, inputs if bias is None else bias)
        num_rows, shape, config = len(inputs), self.shape, self.config
        eights = -(-num_rows // 8)  # which are swizzled together
        copied_rows = min(_TILE_ROWS, 8 * eights)
        row, output = 2 * inputs.stride(0), 2 * weight.stride(0)
        chunks = (shape.num_inputs // _CHUNK, 2 * _CHUNK, config.chunks)
        halves = (shape.num_halves, shape.num_outputs * output, shape.num_halves)
        outputs = (shape.num_outputs, output, config.n // shape.num_halves)
        rows, chunk = (num_rows, row, copied_rows), (_CHUNK, 2, _CHUNK)
        maps = (
            tensor_map(inputs.data_ptr(), inputs.dtype, chunk, rows, chunks),
            tensor_map(weight.data_ptr(), weight.dtype, chunk, outputs, halves, chunks),
        )
        addresses = (each.data_ptr() for each in (squares, states, next_norm, *targets))
        sizes = (num_rows, squares.shape[1], squares.stride(0))
        arguments = _Arguments(*maps, *addresses, epsilon, *sizes)
        row_tiles = -(-num_rows // _TILE_ROWS)
        self.program.launch_early(self.program.num_blocks, arguments, row_tiles=row_tiles)


def many_rows_tile(
    shape: ProductShape, num_rows: int, weight: Tensor, fused: Fused
) -> ManyRowsTile | None:
    """Return the program of a product of bfloat16 numbers; ``None``: there is none."""
    if num_rows not in _ROWS or fused.is_plain:
        return None
    config = _CONFIGS.get((shape.num_outputs, shape.num_inputs, shape.num_halves))
    if config is None or weight.dtype != torch.bfloat16:
        return None
    if not runs_on(weight.device, NUM_BLOCKS):  # of smaller ones it is not known to be faster
        return None
    return _tile(shape, fused, config, weight.device)


@cache
def _tile(
    shape: ProductShape, fused: Fused, config: _Config, device: torch.device
) -> ManyRowsTile | None:
    """Compile and load a program, once for all products of a shape."""
    macros = definitions_of(shape, fused, config)
    num_threads, outputs = 128 * (config.groups + 1), config.n // shape.num_halves
    program = load_product(source(config.n), "many_rows", macros, num_threads, device)
    if program is None:
        return None
    return ManyRowsTile(program, shape, config, min(32, outputs & -outputs))


def definitions_of(shape: ProductShape, fused: Fused, config: _Config) -> dict[str, int]:
    """Return the program's macros."""
    num_tiles = shape.num_outputs * shape.num_halves // config.n
    return {
        **{"OUTPUTS": shape.num_outputs, "INPUTS": shape.num_inputs},
        **{"GATED": shape.num_halves - 1, **fused.macros},
        **{name.upper(): value for name, value in asdict(config).items()},
        "BLOCKS": num_tiles * config.splits,
    }


def source(n: int) -> str:
    """Return the program's source text, with the instruction for ``n`` weights of an input."""
    return with_product(source_of(_FILES), n, "bf16")
