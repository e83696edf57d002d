"""Attention of one new position a row on a Hopper GPU, over paged keys and values.

A program loads keys and values into the registers of matrix instructions, the first of them before
the kernel before it has ended where they are older (`decode_attention.cu`). A row's result is the
same to the bit beside any others, and however early its keys and values are loaded.
"""

import ctypes
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from antiphon.nn.attention import HeadShape
from antiphon.nn.cuda.compiler import Program, load_product, runs_on, source_of
from antiphon.nn.kernels.paged_common import Projected

_FILES = ("device.cuh", "heads.cuh", "decode_attention.cu")
_NUM_THREADS = 128
_HEAD_DIM = 128
_MAX_GROUP = 8
"""Columns of a matrix instruction."""
_TILE_POSITIONS = 16
"""Positions that a warp takes at a time, of one block."""


class _Arguments(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in (
            "joined", "query_weight", "key_weight", "cosines", "sines", "kept", "table", "slots",
            "positions", "parts", "weights",
        )),
        ("kind_stride", ctypes.c_int64),
        ("epsilon", ctypes.c_float),
        *((name, ctypes.c_int) for name in (
            "num_rotations", "table_stride", "num_splits", "loads_early",
        )),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DecodeAttention:
    """Program of heads of a shape and blocks of a size."""

    program: Program

    def attend(
        self,
        projected: Projected,
        kept: Tensor,
        table: Tensor,
        places: tuple[Tensor, Tensor],
        targets: tuple[Tensor, Tensor, int],
        *,
        loads_early: bool,
    ) -> None:
        """Launch the program; arguments are as for `antiphon.nn.kernels.paged_attention.decode`.

        Args:
            targets: results of each split, in bfloat16 if there is one and in float32 otherwise,
                then the logarithms of their weights, and the number of splits.
        """
        (query_weight, key_weight, epsilon), rotation = projected.norms, projected.rotation
        parts, weights, num_splits = targets
        tensors = (
            *(projected.joined, query_weight, key_weight, *rotation),
            *(kept, table, *places, parts, weights),
        )
        addresses = (None if each is None else each.data_ptr() for each in tensors)
        sizes = (len(rotation[0]), table.stride(0), num_splits, int(loads_early))
        arguments = _Arguments(*addresses, kept.stride(0), epsilon, *sizes)
        num_blocks = len(places[0]) * projected.shape.num_kv_heads * num_splits
        self.program.launch_early(num_blocks, arguments)


def decode_program(
    projected: Projected, kept: Tensor, split_positions: int
) -> DecodeAttention | None:
    """Return the program for a layer's bfloat16 numbers; ``None``: there is none."""
    shape, norms = projected.shape, projected.norms[:2]
    if shape.head_dim != _HEAD_DIM or shape.group > _MAX_GROUP or kept.shape[2] % _TILE_POSITIONS:
        return None
    tensors = (projected.joined, *norms, *projected.rotation, kept)
    if any(each is not None and each.dtype != torch.bfloat16 for each in tensors):
        return None
    if not runs_on(kept.device, 1):
        return None
    return _attention(shape, kept.shape[2], split_positions, kept.device)


@cache
def _attention(
    shape: HeadShape, block_positions: int, split_positions: int, device: torch.device
) -> DecodeAttention | None:
    """Compile and load a program, once for all layers of a shape."""
    macros = definitions_of(shape, block_positions, split_positions)
    name = "decode_attention"
    program = load_product(source_of(_FILES), name, macros, _NUM_THREADS, device)
    return None if program is None else DecodeAttention(program)


def definitions_of(shape: HeadShape, block_positions: int, split_positions: int) -> dict[str, int]:
    """Return the program's macros."""
    return {
        **{"KV_HEADS": shape.num_kv_heads, "GROUP": shape.group},
        **{"BLOCK_POSITIONS": block_positions, "SPLIT_POSITIONS": split_positions},
        "BLOCKS": 2**31 - 1,  # the most that a grid can have: they need not be resident
    }
