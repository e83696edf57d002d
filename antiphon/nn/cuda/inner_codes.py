"""All inner codes of a frame in one launch, by resident blocks.

`antiphon.nn.code_predictor.CodePredictor` computes them in some four hundred launches. There a
product mostly reads its weight, and nothing is read between one launch and the next. Here weights
stream without a pause, while blocks wait only for each other's numbers (`inner_codes.cu`).
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from antiphon.nn.cuda.compiler import Program, load_program, runs_on, source_of
from antiphon.nn.cuda.resident_limits import MAX_ROWS, NUM_BLOCKS
from antiphon.nn.layers import Linear, RMSNorm
from antiphon.nn.sampler import SamplingRows
from antiphon.nn.transformer import Transformer

_FILES = (
    *("device.cuh", "heads.cuh", "exchange.cuh", "product.cuh"),
    *("attend.cuh", "draw.cuh", "inner_codes.cu"),
)
_NUM_WARPS = 16
_NUM_THREADS = 32 * (_NUM_WARPS + 1)
_HEAD_DIM = 128
_MAX_POSITIONS = 16
_MAX_LAYERS = 5
"""Most layers whose keys and values fit in memory."""
_HIDDEN, _INNER = 1024, 3072
_NUM_HEADS, _NUM_KV_HEADS = 16, 8
_VOCAB = 2048
_KEPT_STAGES = 14
"""Stages of a pass's weights, two megabytes each, that should stay in the L2 cache."""
_COPIES = 1
"""Such stages in flight: enough to keep the memory busy."""


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in (
            "weights", "heads", "head_norms", "cosines", "sines", "tables", "packets",
            "launches",
        )),
        ("epsilon", ctypes.c_float),
        ("head_epsilon", ctypes.c_float),
    ]  # fmt: skip


class _Rows(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in (
            "states", "codes", "scores", "noise", "temperature", "top_k", "top_p",
        )),
        *((name, ctypes.c_int) for name in (
            "num_rows", "state_stride", "code_stride", "score_stride", "noise_stride",
            "temperature_stride", "top_k_stride", "top_p_stride", "zero",
        )),
    ]  # fmt: skip


def is_served(transformer: Transformer, heads: Sequence[Linear], tables: Sequence[Tensor]) -> bool:
    """Return whether the program supports a model's sizes and device."""
    weight, first = heads[0].weight, transformer.layers[0]
    shape, inner = first.heads.shape, len(first.feed_forward.gate_up.weight) // 2
    sizes = shape.num_heads, shape.num_kv_heads, shape.head_dim, inner
    return (
        runs_on(weight.device, NUM_BLOCKS)
        and weight.dtype == torch.bfloat16
        and all(each.query_key_value.scales is None for each in transformer.layers)
        and not transformer.is_batch_invariant
        and not transformer.has_biases
        and not transformer.has_output_norms
        and all(each.query_key_value.bias is None for each in transformer.layers)
        and all(each.heads.query_norm is not None for each in transformer.layers)
        and all(each.heads.key_norm is not None for each in transformer.layers)
        and all(each.heads.shape == shape for each in transformer.layers)
        and sizes == (_NUM_HEADS, _NUM_KV_HEADS, _HEAD_DIM, _INNER)
        and all(each.bias is None for each in heads)
        and all(tuple(each.weight.shape) == (_VOCAB, _HIDDEN) for each in heads)
        and len(tables) >= len(heads)
        and all(_is_table(each) for each in tables)
        and len(transformer.rope.cosines) > len(heads)
        and len(transformer.layers) <= _MAX_LAYERS
        and len(heads) < _MAX_POSITIONS
    )


def _is_table(table: Tensor) -> bool:
    """Return whether the program can embed codes by a table."""
    is_wide = table.shape[1] == _HIDDEN and len(table) >= _VOCAB
    return is_wide and table.is_contiguous() and table.dtype == torch.bfloat16


@dataclass(frozen=True, slots=True)
class InnerCodes:
    """Packed weights of a model, and the buffers through which the program's blocks communicate.

    Launches share the buffers, so they must follow each other on one stream.
    """

    program: Program
    model: _Model
    held: tuple[Tensor, ...]

    max_rows = MAX_ROWS

    @classmethod
    def of(
        cls, transformer: Transformer, heads: Sequence[Linear], tables: Sequence[Tensor]
    ) -> "InnerCodes":
        """Pack the weights of a model that `is_served`, and compile the program for it."""
        layers, device = transformer.layers, heads[0].weight.device
        program = _program(device, len(layers), len(heads))
        head_norms: list[Tensor] = []
        for layer in layers:
            assert layer.heads.query_norm is not None
            assert layer.heads.key_norm is not None
            head_norms += [layer.heads.query_norm.weight, layer.heads.key_norm.weight]
        assert layers[0].heads.query_norm is not None
        attended, joined = _NUM_HEADS * _HEAD_DIM, (_NUM_HEADS + 2 * _NUM_KV_HEADS) * _HEAD_DIM
        num_numbers = MAX_ROWS * (2 * _HIDDEN + attended + _INNER + 2 * joined + _VOCAB)
        held = (
            packed_layers(transformer),
            torch.stack([packed(_normed(each, transformer.norm)) for each in heads]),
            torch.cat(head_norms),
            transformer.rope.cosines,
            transformer.rope.sines,
            torch.tensor([each.data_ptr() for each in tables], device=device),
            torch.zeros(num_numbers // 2, dtype=torch.int64, device=device),
            torch.zeros(1, dtype=torch.int32, device=device),
        )
        epsilons = layers[0].attention_norm.epsilon, layers[0].heads.query_norm.epsilon
        model = _Model(*(each.data_ptr() for each in held), *epsilons)
        return cls(program, model, (*held, *tables))

    def complete(
        self, states: Tensor, frames: tuple[Tensor, Tensor], rows: SamplingRows, noise: Tensor
    ) -> None:
        """Complete frames as `CodePredictor.complete`, for at most `MAX_ROWS` projected states."""
        codes, scores = frames
        strided = (
            *(states, codes, scores, noise),
            *(rows.temperature, rows.top_k, rows.top_p),
        )
        rows_argument = _Rows(
            *(each.data_ptr() for each in strided),
            len(states),
            *(each.stride(0) for each in strided),
            0,
        )
        self.program.launch(self.model, rows_argument)


@cache
def _program(device: torch.device, num_layers: int, num_groups: int) -> Program:
    definitions = definitions_of(num_layers, num_groups)
    return load_program(source(), "inner_codes", definitions, _NUM_THREADS, device)


def source() -> str:
    """Return the program's source text."""
    return source_of(_FILES)


def definitions_of(num_layers: int, num_groups: int) -> dict[str, int]:
    """Return the program's macros for a number of layers and inner codes."""
    return {
        "BLOCKS": NUM_BLOCKS,
        "LAYERS": num_layers,
        "HIDDEN": _HIDDEN,
        "INNER": _INNER,
        "NUM_HEADS": _NUM_HEADS,
        "NUM_KV_HEADS": _NUM_KV_HEADS,
        "VOCAB": _VOCAB,
        "NUM_GROUPS": num_groups,
        "KEPT_STAGES": _KEPT_STAGES,
        "COPIES": _COPIES,
    }


def packed_layers(transformer: Transformer) -> Tensor:
    """Return the weights of all layers, ``[blocks, layers, words of a block and a layer]``."""
    layers = []
    for layer in transformer.layers:
        joining = _normed(layer.query_key_value, layer.attention_norm)
        pairs = _normed(layer.feed_forward.gate_up, layer.feed_forward_norm).view(2, -1, 2, _HIDDEN)
        lifting = pairs.transpose(0, 1).flatten(0, 2)  # gate pairs and up pairs in turn
        parts = (joining, layer.output.weight, lifting, layer.feed_forward.down.weight)
        layers.append(torch.cat([packed(each) for each in parts], dim=1))
    return torch.stack(layers, dim=1)


def _normed(linear: Linear, norm: RMSNorm) -> Tensor:
    """Fold a norm's weight into the product after it, and round again."""
    return (linear.weight.float() * norm.weight.float()).to(linear.weight.dtype)


def packed(weight: Tensor) -> Tensor:
    """Lay out a weight as read by the lanes of the program's matrix instructions.

    Each block has outputs in turn, and each of its warps inputs in turn. The A operand of an
    instruction is ``[16 outputs, 16 inputs]``, of which lane ``4 g + q`` holds outputs g and g + 8,
    inputs 2q, 2q + 1, 2q + 8 and 2q + 9 (PTX ISA, "mma.m16n8k16"). For blocks with eight outputs,
    two operands of half the rows replace one.

    Args:
        weight: ``[num_outputs, num_inputs]``.

    Returns:
        ``[blocks, words of a block]``: stages of two operands for each warp.
    """
    num_outputs, num_inputs = weight.shape
    own, steps = num_outputs // NUM_BLOCKS, num_inputs // 16 // _NUM_WARPS
    inputs = (_NUM_WARPS, steps, 2, 4, 2)  # warp, step, half of 16, lane in group, pair
    if own == 8:
        lanes = weight.view(NUM_BLOCKS, 8, _NUM_WARPS, steps // 2, 2, 2, 4, 2)
        # block, g, warp, turn, step, half, q, pair -> block, warp, turn, g, q, step, half, pair
        lanes = lanes.permute(0, 2, 3, 1, 6, 4, 5, 7)
    else:
        lanes = weight.view(NUM_BLOCKS, own // 16, 2, 8, *inputs)
        # block, tile, row half, g, warp, step, half, q, pair
        # -> block, warp, step, tile, g, q, half, row half, pair
        lanes = lanes.permute(0, 4, 5, 1, 3, 7, 6, 2, 8)
    lanes = lanes.reshape(NUM_BLOCKS, _NUM_WARPS, -1, 2, 32 * 8)
    return lanes.transpose(1, 2).reshape(NUM_BLOCKS, -1)
