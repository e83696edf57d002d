"""Product of up to 32 rows on tensor cores, which loads its weight before its inputs are ready.

A program loads its whole weight before it waits for the kernel before it, like the product of a
handful of rows. Its warps share the inputs: each multiplies a part of them for all outputs of the
program, and the parts are added in a fixed order.
"""

import triton
import triton.language as tl

from antiphon.nn.kernels.pdl import await_others


@triton.jit(do_not_specialize=["num_rows"])
def held_product(
    inputs, squares, weight, scales, bias, states, next_norm, result, scaled, parts, epsilon,
    num_rows,
    NUM_OUTPUTS: tl.constexpr, NUM_INPUTS: tl.constexpr, INPUT_STRIDE: tl.constexpr,
    NUM_PARTS: tl.constexpr, PARTS: tl.constexpr, PART_STRIDE: tl.constexpr,
    IS_NORMED: tl.constexpr, IS_ADDED: tl.constexpr,
    PDL: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_OUTPUTS: tl.constexpr,
    BLOCK_INPUTS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    NUM_STEPS: tl.constexpr = NUM_INPUTS // BLOCK_INPUTS
    PART: tl.constexpr = BLOCK_INPUTS // SPLITS
    outputs = tile * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    rows = tl.arange(0, BLOCK_ROWS)
    is_row = rows < num_rows
    columns = tl.arange(0, SPLITS)[:, None] * PART + tl.arange(0, PART)[None, :]
    places = columns[:, :, None] + outputs.to(tl.int64)[None, None, :] * NUM_INPUTS
    weights = ()
    for step in tl.static_range(NUM_STEPS):
        weights = weights + (tl.load(weight + places + step * BLOCK_INPUTS),)
    if IS_ADDED:
        factor = tl.load(next_norm + outputs).to(tl.float32)[None, :]
    if scales is not None:
        size = tl.load(scales + outputs)[None, :]
    if bias is not None:
        shift = tl.load(bias + outputs).to(tl.float32)[None, :]
    await_others(PDL)
    left = inputs + rows[None, :, None] * INPUT_STRIDE + columns[:, None, :]
    totals = tl.zeros([SPLITS, BLOCK_ROWS, BLOCK_OUTPUTS], tl.float32)
    for step in tl.static_range(NUM_STEPS):
        x = tl.load(left + step * BLOCK_INPUTS, mask=is_row[None, :, None], other=0.0)
        totals = tl.dot(x, weights[step].to(x.dtype), totals)
    total = tl.sum(totals, axis=0)
    if scales is not None:
        total = total * size
    if IS_NORMED:
        part = tl.arange(0, PARTS)
        mask = is_row[:, None] & (part < NUM_PARTS)[None, :]
        square = squares + rows[:, None] * PART_STRIDE + part[None, :]
        square = tl.load(square, mask=mask, other=0.0)
        divisor = tl.rsqrt(tl.sum(square, axis=1) / NUM_INPUTS + epsilon)[:, None]
        total = total * divisor
    if bias is not None:
        total += shift
    target = rows[:, None] * NUM_OUTPUTS + outputs[None, :]
    if IS_ADDED:
        total += tl.load(states + target, mask=is_row[:, None], other=0.0).to(tl.float32)
        tl.store(scaled + target, total * factor, mask=is_row[:, None])
        sums = tl.sum(total * total, axis=1)
        tl.store(parts + rows * (NUM_OUTPUTS // BLOCK_OUTPUTS) + tile, sums, mask=is_row)
    tl.store(result + target, total, mask=is_row[:, None])
