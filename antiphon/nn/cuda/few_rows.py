"""Products of few rows on a Hopper GPU, fused with the norm before and the gate or sum after.

A program copies its weights into shared memory before its inputs are ready, and multiplies on
tensor cores (`few_rows.cu`). A row's result is the same to the bit in any number of rows of a
program.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from antiphon.nn.cuda.compiler import Program, load_product, runs_on, source_of
from antiphon.nn.kernels.product_tiles import Factors, Fused, ProductShape

_FILES = ("device.cuh", "few_rows.cu")
_MAX_ROWS = 8
"""Rows that a matrix instruction takes."""


@dataclass(frozen=True, slots=True)
class _Config:
    """How a product is cut.

    Attributes:
        warps: warps of a block, which share its inputs.
        tiles: tiles of 16 outputs of a block.
        stages: copies of 64 inputs of a tile and warp in flight.
        resident: blocks that registers must have room for on a multiprocessor.
    """

    warps: int
    tiles: int
    stages: int
    resident: int


_CONFIGS: Mapping[tuple[int, int, int], _Config] = {
    # By outputs, inputs and halves: Qwen3-TTS of both sizes, measured on an H200.
    (4096, 2048, 1): _Config(8, 2, 8, 1),
    (2048, 2048, 1): _Config(16, 1, 2, 1),
    (6144, 2048, 2): _Config(8, 6, 12, 1),
    (2048, 6144, 1): _Config(16, 1, 3, 1),
    (4096, 1024, 1): _Config(8, 1, 2, 2),
    (1024, 2048, 1): _Config(16, 1, 2, 1),
    (3072, 1024, 2): _Config(8, 2, 4, 2),
    (1024, 3072, 1): _Config(16, 1, 3, 1),
    # The decoder of MiMo-Audio's groups; two of its products are also of VoxCPM2's flow.
    (3072, 1024, 1): _Config(16, 2, 2, 1),
    (1024, 1024, 1): _Config(16, 1, 1, 1),
    (4096, 1024, 2): _Config(8, 4, 8, 1),
    (1024, 4096, 1): _Config(16, 1, 4, 1),
    (2880, 1024, 1): _Config(8, 1, 2, 2),
}


class _Arguments(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in (
            "inputs", "squares", "weight", "states", "next_norm", "result", "scaled", "parts",
        )),
        ("epsilon", ctypes.c_float),
        *((name, ctypes.c_int) for name in (
            "num_rows", "input_stride", "num_parts", "part_stride",
        )),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FewRowsTile:
    """Program of a product.

    Attributes:
        outputs: outputs of which a sum of squares is written.
    """

    program: Program
    outputs: int

    def multiply(
        self,
        inputs: Tensor,
        weights: Factors,
        norm: tuple[Tensor, float] | None,
        added: tuple[Tensor, Tensor] | None,
        targets: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """Launch the program.

        Args:
            inputs: ``[num_rows, num_inputs]``, rows of any stride that is a multiple of eight.
            weights: weight, no scales, and a bias if the program has one.
            norm: sums of squares of parts of the rows, and epsilon.
            added: addends, and the weight of the next norm.
            targets: result, result times the weight of the next norm, and its sums of squares.
        """
        squares, epsilon = norm or (targets[2], 0.0)
        weight, _, bias = weights
        states, next_norm = added or (inputs, inputs if bias is None else bias)
        tensors = (inputs, squares, weight, states, next_norm, *targets)
        addresses = (each.data_ptr() for each in tensors)
        sizes = (len(inputs), inputs.stride(0), squares.shape[1], squares.stride(0))
        self.program.launch_early(self.program.num_blocks, _Arguments(*addresses, epsilon, *sizes))


def few_rows_tile(
    shape: ProductShape, num_rows: int, weight: Tensor, fused: Fused
) -> FewRowsTile | None:
    """Return the program of a product of bfloat16 numbers; ``None``: there is none."""
    if num_rows > _MAX_ROWS or fused.is_plain:
        return None
    config = _CONFIGS.get((shape.num_outputs, shape.num_inputs, shape.num_halves))
    if config is None or weight.dtype != torch.bfloat16 or not runs_on(weight.device, 1):
        return None
    return _tile(shape, fused, config, weight.device)


@cache
def _tile(
    shape: ProductShape, fused: Fused, config: _Config, device: torch.device
) -> FewRowsTile | None:
    """Compile and load a program, once for all products of a shape."""
    macros = definitions_of(shape, fused, config)
    program = load_product(source_of(_FILES), "few_rows", macros, 32 * config.warps, device)
    return None if program is None else FewRowsTile(program, 16 * config.tiles)


def definitions_of(shape: ProductShape, fused: Fused, config: _Config) -> dict[str, int]:
    """Return the program's macros."""
    num_tiles = shape.num_outputs * shape.num_halves // 16
    return {
        **{"OUTPUTS": shape.num_outputs, "INPUTS": shape.num_inputs},
        **{"GATED": shape.num_halves - 1, **fused.macros},
        **{"WARPS": config.warps, "TILES": config.tiles, "STAGES": config.stages},
        **{"RESIDENT": config.resident, "BLOCKS": num_tiles // config.tiles},
    }
