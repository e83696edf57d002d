"""Matrix products of few rows, fused with the norm before and the sum or gate after them.

At a few rows a product is bound by reading its weight, and the remaining cost is the wait between
one kernel and the next. So a kernel loads its weight before it waits for the kernel before it
(programmatic dependent launch), and a norm is not a separate kernel: the producer of states writes
them twice, unchanged and times the next norm's weight, with sums of squares by which the next
product divides.

Three kernels share the work: one for a handful of rows, one on tensor cores
(`antiphon.nn.kernels.wide_product`), and between them one on tensor cores whose programs hold their
weights like the first one (`antiphon.nn.kernels.held_product`). `antiphon.nn.kernels.product_tiles`
has their tiling. Each adds up a row's result in an order that depends only on the shape of the
weight and the tile, so that results of the second one with a fixed tile are batch-invariant. On
Hopper GPUs programs take their place (`antiphon.nn.cuda.few_rows`, `antiphon.nn.cuda.many_rows`).
"""

from dataclasses import dataclass
from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.cuda.few_rows import FewRowsTile, few_rows_tile
from antiphon.nn.cuda.many_rows import ManyRowsTile, many_rows_tile
from antiphon.nn.kernels.held_product import held_product
from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.product_tiles import (
    Factors,
    Fused,
    HeldTile,
    ProductShape,
    ThinTile,
    WideTile,
    held_tile,
    invariant_tile,
    thin_tile,
    wide_tile,
)
from antiphon.nn.kernels.shared_memory import max_shared_bytes
from antiphon.nn.kernels.wide_product import arrivals_of, wide_product

MAX_THIN_ROWS = 4
MAX_ROWS = 64
"""Limit above which products are compute-bound, and PyTorch's own product is as fast."""


class Scaled(Protocol):
    """A product whose weight may be int8."""

    @property
    def weight(self) -> Tensor:
        """Factors, ``[num_outputs, num_inputs]``."""

    @property
    def scales(self) -> Tensor | None:
        """Factors of the outputs, f32 ``[num_outputs]``; ``None``: there are none."""

    @property
    def bias(self) -> Tensor | None:
        """Addends of the outputs."""


@dataclass(frozen=True, slots=True)
class PreNormState:
    """States between two layers, prepared for the next norm.

    Attributes:
        states: ``[num_rows, width]``, rows of any stride.
        scaled: states times the weight of the norm.
        squares: sums of squares of parts of each row, f32 ``[num_rows, num_parts]``, of any stride.
        num_positions: number of consecutive rows that are positions of one run.
    """

    states: Tensor
    scaled: Tensor
    squares: Tensor
    num_positions: int = 1

    def last(self, num_positions: int) -> "PreNormState":
        """Return the last position of each run of ``num_positions`` rows."""
        if num_positions == 1:
            return self
        rows = slice(num_positions - 1, None, num_positions)
        return PreNormState(self.states[rows], self.scaled[rows], self.squares[rows])


def scale(states: Tensor, norm: Tensor) -> PreNormState:
    """Start a chain of products with ``[num_rows, width]`` and the weight of the first norm."""
    num_rows, width = states.shape
    scaled = torch.empty_like(states)
    squares = torch.empty(num_rows, 1, device=states.device)
    _scale[(num_rows,)](
        states.contiguous(), norm, scaled, squares, width,
        BLOCK=triton.next_power_of_2(width), PDL=overlaps(states),
        num_warps=4, launch_pdl=overlaps(states),
    )  # fmt: skip
    return PreNormState(states, scaled, squares)


@dataclass(frozen=True, slots=True)
class FusedLinear:
    """Fused products of few rows.

    Attributes:
        is_batch_invariant: whether a row's result must not depend on the number of rows.
    """

    is_batch_invariant: bool = False

    def normed(
        self,
        inputs: PreNormState,
        linear: Tensor | Scaled,
        epsilon: float,
        bias: Tensor | None = None,
        *,
        is_gated: bool = False,
    ) -> Tensor:
        """Return ``norm(states) @ weight.T + bias``.

        Args:
            inputs: pre-normed rows.
            linear: weight, ``[num_outputs, width]``, or a product with it.
            bias: ``[num_outputs]``, not with gates.
            is_gated: whether the weight's first half makes gates: return ``silu(gate) * up``.
        """
        weight, scales, own_bias = _parted(linear)
        bias = own_bias if bias is None else bias
        assert bias is None or not is_gated, "gates have no bias"
        num_outputs = len(weight) // (2 if is_gated else 1)
        factors = weight, scales, bias
        fused = Fused(is_normed=True, is_biased=bias is not None)
        tile = self._tile(inputs.scaled, factors, fused, 2 if is_gated else 1)
        result = inputs.scaled.new_empty(len(inputs.scaled), num_outputs)
        targets = (result, result, inputs.squares)
        norm = (inputs.squares, epsilon)
        _run(tile, inputs.scaled, factors, norm, None, targets, is_gated=is_gated)
        return result

    def plain(self, inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return ``inputs @ weight.T + bias`` for ``[num_rows, num_inputs]``."""
        result = inputs.new_empty(len(inputs), len(weight))
        factors = weight, None, bias
        tile = self._tile(inputs, factors, Fused())
        nothing = torch.empty(1, 1, device=inputs.device)
        _run(tile, inputs, factors, None, None, (result, result, nothing))
        return result

    def added(
        self, states: Tensor, inputs: Tensor, linear: Tensor | Scaled, next_norm: Tensor
    ) -> PreNormState:
        """Return ``states + inputs @ weight.T``, prepared for the next norm.

        Args:
            states: ``[num_rows, num_outputs]``.
            inputs: ``[num_rows, num_inputs]``.
            linear: weight, ``[num_outputs, num_inputs]``, or a product with it.
            next_norm: weight of the next norm, ``[num_outputs]``.
        """
        num_rows, num_outputs = states.shape
        factors = _parted(linear)
        assert factors[2] is None, "a sum has no bias"
        tile = self._tile(inputs, factors, Fused(is_added=True))
        squares = torch.empty(num_rows, num_outputs // tile.outputs, device=states.device)
        result = PreNormState(torch.empty_like(states), torch.empty_like(states), squares)
        targets = (result.states, result.scaled, squares)
        _run(tile, inputs, factors, None, (states, next_norm), targets)
        return result

    def _tile(
        self, inputs: Tensor, factors: Factors, fused: Fused, num_halves: int = 1
    ) -> FewRowsTile | ManyRowsTile | ThinTile | HeldTile | WideTile:
        num_rows, weight = len(inputs), factors[0]
        num_outputs, num_inputs = weight.shape
        shape = ProductShape(num_outputs // num_halves, num_inputs, num_halves, inputs.itemsize)
        limit = max_shared_bytes(weight)
        if factors[1] is None:
            rows = MAX_ROWS if self.is_batch_invariant else num_rows  # one program for any number
            for find in (few_rows_tile, many_rows_tile):
                if (tile := find(shape, rows, weight, fused)) is not None:
                    return tile
        if self.is_batch_invariant:
            return invariant_tile(shape, limit)
        if num_rows <= MAX_THIN_ROWS and (thin := thin_tile(shape, num_rows)) is not None:
            return thin
        return held_tile(shape, num_rows, limit) or wide_tile(shape, num_rows, limit)


def _parted(linear: Tensor | Scaled) -> Factors:
    if isinstance(linear, Tensor):
        return linear, None, None
    return linear.weight, linear.scales, linear.bias


def _run(
    tile: FewRowsTile | ManyRowsTile | ThinTile | HeldTile | WideTile,
    inputs: Tensor,
    weights: Factors,
    norm: tuple[Tensor, float] | None,
    added: tuple[Tensor, Tensor] | None,
    targets: tuple[Tensor, Tensor, Tensor],
    *,
    is_gated: bool = False,
) -> None:
    if isinstance(tile, FewRowsTile | ManyRowsTile):
        tile.multiply(inputs, weights, norm, added, targets)
        return
    num_rows, num_inputs = inputs.shape
    num_outputs = targets[0].shape[1]
    squares, epsilon = norm or (targets[2], 0.0)
    states, next_norm = added or (inputs, inputs)
    arguments = (inputs, squares, *weights, states, next_norm, *targets, epsilon, num_rows)
    options = {
        "NUM_OUTPUTS": num_outputs,
        "NUM_INPUTS": num_inputs,
        "INPUT_STRIDE": inputs.stride(0),
        "NUM_PARTS": squares.shape[1],
        "PARTS": triton.next_power_of_2(squares.shape[1]),
        "PART_STRIDE": squares.stride(0),
        "IS_NORMED": norm is not None,
        "IS_GATED": is_gated,
        "IS_ADDED": added is not None,
        "PDL": overlaps(inputs),
        "BLOCK_OUTPUTS": tile.outputs,
        "BLOCK_INPUTS": tile.inputs,
        "num_warps": tile.num_warps,
        "launch_pdl": overlaps(inputs),
    }
    num_tiles = num_outputs // tile.outputs
    if isinstance(tile, ThinTile):
        _thin_product[(num_tiles,)](*arguments, ROWS=num_rows, **options)
        return
    if isinstance(tile, HeldTile):
        del options["IS_GATED"]
        held_product[(num_tiles,)](
            *arguments, BLOCK_ROWS=tile.rows, SPLITS=tile.num_warps, **options
        )
        return
    num_blocks = triton.cdiv(num_rows, tile.rows)
    sums, arrivals = None, None
    if tile.splits > 1:
        size = tile.splits * (2 if is_gated else 1), num_rows, num_outputs
        sums = torch.empty(size, device=inputs.device)
        arrivals = arrivals_of(inputs, num_tiles * num_blocks)
    wide_product[num_tiles, num_blocks, tile.splits](
        *arguments, sums, arrivals,
        BLOCK_ROWS=tile.rows, SPLITS=tile.splits, num_stages=tile.num_stages, **options,
    )  # fmt: skip


@triton.jit
def _scale(states, norm, scaled, squares, width, BLOCK: tl.constexpr, PDL: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    weight = tl.load(norm + columns, mask=inside, other=0.0).to(tl.float32)
    await_others(PDL)
    value = tl.load(states + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(scaled + row * width + columns, value * weight, mask=inside)
    tl.store(squares + row, tl.sum(value * value, axis=0))


@triton.jit(do_not_specialize=["num_rows"])
def _thin_product(
    inputs, squares, weight, scales, bias, states, next_norm, result, scaled, parts, epsilon,
    num_rows, NUM_OUTPUTS: tl.constexpr, NUM_INPUTS: tl.constexpr, INPUT_STRIDE: tl.constexpr,
    NUM_PARTS: tl.constexpr, PARTS: tl.constexpr, PART_STRIDE: tl.constexpr,
    IS_NORMED: tl.constexpr, IS_GATED: tl.constexpr, IS_ADDED: tl.constexpr,
    PDL: tl.constexpr, ROWS: tl.constexpr, BLOCK_OUTPUTS: tl.constexpr, BLOCK_INPUTS: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    outputs = tile * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    columns = tl.arange(0, BLOCK_INPUTS)
    places = outputs.to(tl.int64)[:, None] * NUM_INPUTS + columns[None, :]
    first, second = (), ()
    for step in tl.static_range(NUM_INPUTS // BLOCK_INPUTS):
        first = first + (tl.load(weight + places + step * BLOCK_INPUTS),)
        if IS_GATED:
            up = weight + NUM_OUTPUTS * NUM_INPUTS
            second = second + (tl.load(up + places + step * BLOCK_INPUTS),)
    if IS_ADDED:
        factor = tl.load(next_norm + outputs).to(tl.float32)
    if scales is not None:
        size = tl.load(scales + outputs)
        up_size = tl.load(scales + (NUM_OUTPUTS if IS_GATED else 0) + outputs)
    if bias is not None:
        shift = tl.load(bias + outputs).to(tl.float32)
    await_others(PDL)
    # All loads first: no row may wait until the row before it has been written.
    xs = ()
    divisors = ()
    befores = ()
    for row in tl.static_range(ROWS):
        for step in tl.static_range(NUM_INPUTS // BLOCK_INPUTS):
            xs = xs + (tl.load(inputs + row * INPUT_STRIDE + step * BLOCK_INPUTS + columns),)
        if IS_NORMED:
            part = tl.arange(0, PARTS)
            square = tl.load(squares + row * PART_STRIDE + part, mask=part < NUM_PARTS, other=0.0)
            divisors = divisors + (square,)
        if IS_ADDED:
            befores = befores + (tl.load(states + row * NUM_OUTPUTS + outputs),)
    values = ()
    for row in tl.static_range(ROWS):
        total = tl.zeros([BLOCK_OUTPUTS, BLOCK_INPUTS], tl.float32)
        gated = tl.zeros([BLOCK_OUTPUTS, BLOCK_INPUTS], tl.float32)
        for step in tl.static_range(NUM_INPUTS // BLOCK_INPUTS):
            x = xs[row * (NUM_INPUTS // BLOCK_INPUTS) + step].to(tl.float32)[None, :]
            total += first[step].to(tl.float32) * x
            if IS_GATED:
                gated += second[step].to(tl.float32) * x
        value, lifted = tl.sum(total, axis=1), tl.sum(gated, axis=1)
        if scales is not None:
            value, lifted = value * size, lifted * up_size
        if IS_NORMED:
            divisor = tl.rsqrt(tl.sum(divisors[row], axis=0) / NUM_INPUTS + epsilon)
            value, lifted = value * divisor, lifted * divisor
        if IS_GATED:
            value = value / (1.0 + tl.exp(-value)) * lifted
        if bias is not None:
            value += shift
        if IS_ADDED:
            value += befores[row].to(tl.float32)
        values = values + (value,)
    for row in tl.static_range(ROWS):
        target = row * NUM_OUTPUTS + outputs
        value = values[row]
        if IS_ADDED:
            tl.store(scaled + target, value * factor)
            tl.store(parts + row * (NUM_OUTPUTS // BLOCK_OUTPUTS) + tile, tl.sum(value * value))
        tl.store(result + target, value)
