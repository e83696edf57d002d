"""Product on tensor cores, whose inputs several programs may share.

If the outputs of a layer are too few for all multiprocessors, the inputs of a tile are split among
programs (split-K). Each writes the sums of its part; the last one to finish reads all parts, adds
them in order, and continues like an unsplit program. A result therefore depends on the tile, and
not on which program was the last.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others

MAX_SPLIT_TILES = 4096
"""Most tiles of a product, in all blocks of rows, if its inputs are split."""


def arrivals_of(inputs: Tensor, num_tiles: int) -> Tensor:
    """Return the count of finished programs of each tile of a product, i32, 0 between kernels.

    Kernels of one stream run one after the other and share the counters; those of other streams may
    run at the same time. A graph has the counters of the stream that it is captured on.
    """
    assert num_tiles <= MAX_SPLIT_TILES
    device = inputs.device
    stream = torch.cuda.current_stream(device).cuda_stream if inputs.is_cuda else 0
    found = _ARRIVALS.get((device, stream))
    if found is None:
        found = torch.zeros(MAX_SPLIT_TILES, dtype=torch.int32, device=device)
        # Zeros allocated in a capture are written when that graph runs, so others cannot use them.
        if not (inputs.is_cuda and torch.cuda.is_current_stream_capturing()):
            _ARRIVALS[device, stream] = found
    return found


_ARRIVALS: dict[tuple[torch.device, int], Tensor] = {}


@triton.jit(do_not_specialize=["num_rows"])
def wide_product(
    inputs, squares, weight, scales, bias, states, next_norm, result, scaled, parts, epsilon,
    num_rows, sums, arrivals,
    NUM_OUTPUTS: tl.constexpr, NUM_INPUTS: tl.constexpr, INPUT_STRIDE: tl.constexpr,
    NUM_PARTS: tl.constexpr, PARTS: tl.constexpr, PART_STRIDE: tl.constexpr,
    IS_NORMED: tl.constexpr, IS_GATED: tl.constexpr, IS_ADDED: tl.constexpr,
    PDL: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_OUTPUTS: tl.constexpr,
    BLOCK_INPUTS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    outputs = tile * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    rows = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    is_row = rows < num_rows
    NUM_STEPS: tl.constexpr = (NUM_INPUTS + BLOCK_INPUTS - 1) // BLOCK_INPUTS
    SPLIT_INPUTS: tl.constexpr = (NUM_STEPS + SPLITS - 1) // SPLITS * BLOCK_INPUTS
    columns = tl.arange(0, BLOCK_INPUTS)
    if SPLITS > 1:
        columns += tl.program_id(2) * SPLIT_INPUTS
    left = inputs + rows[:, None] * INPUT_STRIDE + columns[None, :]
    right = weight + outputs.to(tl.int64)[None, :] * NUM_INPUTS + columns[:, None]
    total = tl.zeros([BLOCK_ROWS, BLOCK_OUTPUTS], tl.float32)
    gated = tl.zeros([BLOCK_ROWS, BLOCK_OUTPUTS], tl.float32)
    await_others(PDL)
    for step in range(0, SPLIT_INPUTS, BLOCK_INPUTS):
        inside = step + columns < NUM_INPUTS
        x = tl.load(left + step, mask=is_row[:, None] & inside[None, :], other=0.0)
        w = tl.load(right + step, mask=inside[:, None], other=0).to(x.dtype)
        total = tl.dot(x, w, total, input_precision="ieee")
        if IS_GATED:
            w = tl.load(right + NUM_OUTPUTS * NUM_INPUTS + step, mask=inside[:, None], other=0)
            w = w.to(x.dtype)
            gated = tl.dot(x, w, gated, input_precision="ieee")
    if SPLITS == 1:
        _finish(
            total, gated, squares, scales, bias, states, next_norm, result, scaled, parts,
            epsilon, num_rows, NUM_OUTPUTS, NUM_INPUTS, NUM_PARTS, PARTS, PART_STRIDE,
            IS_NORMED, IS_GATED, IS_ADDED, BLOCK_ROWS, BLOCK_OUTPUTS,
        )  # fmt: skip
    else:
        place = sums + rows[:, None] * NUM_OUTPUTS + outputs[None, :]
        split_size = num_rows.to(tl.int64) * NUM_OUTPUTS
        own = place + tl.program_id(2) * split_size
        tl.store(own, total, mask=is_row[:, None])
        if IS_GATED:
            tl.store(own + SPLITS * split_size, gated, mask=is_row[:, None])
        # All threads must have written before one of them counts the program.
        tl.debug_barrier()
        arrival = arrivals + tl.program_id(1) * (NUM_OUTPUTS // BLOCK_OUTPUTS) + tile
        if tl.atomic_add(arrival, 1, sem="acq_rel") == SPLITS - 1:
            tl.store(arrival, 0)  # for the next kernel
            total = _join(place, is_row, split_size, SPLITS, BLOCK_ROWS, BLOCK_OUTPUTS)
            if IS_GATED:
                place += SPLITS * split_size
                gated = _join(place, is_row, split_size, SPLITS, BLOCK_ROWS, BLOCK_OUTPUTS)
            _finish(
                total, gated, squares, scales, bias, states, next_norm, result, scaled, parts,
                epsilon, num_rows, NUM_OUTPUTS, NUM_INPUTS, NUM_PARTS, PARTS, PART_STRIDE,
                IS_NORMED, IS_GATED, IS_ADDED, BLOCK_ROWS, BLOCK_OUTPUTS,
            )  # fmt: skip


@triton.jit
def _join(
    place, is_row, split_size, SPLITS: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_OUTPUTS: tl.constexpr,
):  # fmt: skip
    total = tl.zeros([BLOCK_ROWS, BLOCK_OUTPUTS], tl.float32)
    for split in tl.static_range(SPLITS):
        # Bypass the L1 cache, which is not shared with the programs that wrote.
        total += tl.load(
            place + split * split_size, mask=is_row[:, None], other=0.0, cache_modifier=".cg"
        )
    return total


@triton.jit
def _finish(
    total, gated, squares, scales, bias, states, next_norm, result, scaled, parts, epsilon,
    num_rows, NUM_OUTPUTS: tl.constexpr, NUM_INPUTS: tl.constexpr,
    NUM_PARTS: tl.constexpr, PARTS: tl.constexpr, PART_STRIDE: tl.constexpr,
    IS_NORMED: tl.constexpr, IS_GATED: tl.constexpr, IS_ADDED: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_OUTPUTS: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    outputs = tile * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    rows = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    is_row = rows < num_rows
    if scales is not None:
        total = total * tl.load(scales + outputs)[None, :]
        if IS_GATED:
            gated = gated * tl.load(scales + NUM_OUTPUTS + outputs)[None, :]
    if IS_NORMED:
        part = tl.arange(0, PARTS)
        mask = is_row[:, None] & (part < NUM_PARTS)[None, :]
        square = tl.load(
            squares + rows[:, None] * PART_STRIDE + part[None, :], mask=mask, other=0.0
        )
        divisor = tl.rsqrt(tl.sum(square, axis=1) / NUM_INPUTS + epsilon)[:, None]
        total = total * divisor
        if IS_GATED:
            gated = gated * divisor
    if IS_GATED:
        total = total / (1.0 + tl.exp(-total)) * gated
    if bias is not None:
        total += tl.load(bias + outputs).to(tl.float32)[None, :]
    target = rows[:, None] * NUM_OUTPUTS + outputs[None, :]
    if IS_ADDED:
        factor = tl.load(next_norm + outputs).to(tl.float32)[None, :]
        total += tl.load(states + target, mask=is_row[:, None], other=0.0).to(tl.float32)
        tl.store(scaled + target, total * factor, mask=is_row[:, None])
        row_squares = tl.sum(total * total, axis=1)
        tl.store(parts + rows * (NUM_OUTPUTS // BLOCK_OUTPUTS) + tile, row_squares, mask=is_row)
    tl.store(result + target, total, mask=is_row[:, None])
