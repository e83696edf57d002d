"""Decode attention over paged keys and values, in one kernel.

Queries and new keys are normed and rotated, keys and values written, and new positions attended to
before they have reached memory. Beyond one split of positions, several programs share a row and a
second kernel joins them. Hopper GPUs have a program of their own for some heads.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.cuda.decode_attention import decode_program
from antiphon.nn.kernels.paged_common import (
    MIN_DOT,
    Projected,
    attend_kept,
    normed_and_rotated,
    offsets,
    run_positions,
    take_in,
)
from antiphon.nn.kernels.paged_short_context import decode_short
from antiphon.nn.kernels.pdl import await_others, overlaps, prefetch_rows

_SPLIT_POSITIONS = 256


def decode(
    projected: Projected,
    kept: Tensor,
    table: Tensor,
    places: tuple[Tensor, Tensor],
    num_visible: int,
    result: Tensor | None = None,
    *,
    loads_early: bool = False,
) -> Tensor:
    """Write the newest positions of some rows and attend from them.

    Args:
        projected: product of the tokens, row by row, with equally many per row.
        kept: a layer's keys and values,
            ``[2, num_blocks, block_positions, num_kv_heads, head_dim]``.
        table: blocks of each slot, int32 ``[num_slots, max_blocks]``.
        places: slot and first new position of each row, int64 ``[num_rows]``. New positions of a
            row do not cross a split. Both, and the table, must be written before any kernel that
            may still be running when this one starts.
        num_visible: upper bound of the rows' positions, plus one.
        result: contiguous output tensor; ``None``: allocate one.
        loads_early: whether the kernel before this one has written no earlier position, so that
            they may be read before it has ended. It changes no bit.

    Returns:
        ``[num_tokens, num_heads * head_dim]``.
    """
    shape, num_tokens, num_rows = projected.shape, len(projected.joined), len(places[0])
    num_splits = triton.cdiv(num_visible, _SPLIT_POSITIONS)
    if result is None:
        result = projected.joined.new_empty(num_tokens, shape.num_heads * shape.head_dim)
    is_whole = num_splits == 1
    sizes = (num_tokens, shape.num_heads, num_splits)
    parts = result if is_whole else result.new_empty((*sizes, shape.head_dim), dtype=torch.float32)
    weights = result if is_whole else result.new_empty(sizes, dtype=torch.float32)
    targets, program = (parts, weights, num_splits), None
    is_short = table.shape[1] == 1 and shape.group & (shape.group - 1) == 0
    if num_tokens == num_rows and not is_short:
        program = decode_program(projected, kept, _SPLIT_POSITIONS)
    if program is not None:
        program.attend(projected, kept, table, places, targets, loads_early=loads_early)
    else:
        _run_kernel(projected, kept, table, places, targets, is_short=is_short)
    if not is_whole:
        max_splits = triton.cdiv(table.shape[1] * kept.shape[2], _SPLIT_POSITIONS)
        _join(parts, weights, places[1], max_splits, result)
    return result


def _run_kernel(
    projected: Projected,
    kept: Tensor,
    table: Tensor,
    places: tuple[Tensor, Tensor],
    targets: tuple[Tensor, Tensor, int],
    *,
    is_short: bool,
) -> None:
    """Launch `decode_short` for a new position of short contexts, `_decode` for all else."""
    shape, num_rows = projected.shape, len(places[0])
    num_new = len(projected.joined) // num_rows
    grid = (num_rows, shape.num_kv_heads, targets[2])
    arguments = (
        *projected.arguments,
        *(kept, kept.stride(0), table, table.stride(0), *places, *targets),
    )
    options = {
        "NUM_KV_HEADS": shape.num_kv_heads,
        "GROUP": shape.group,
        "HALF": shape.head_dim // 2,
        "RUN": run_positions(table, kept),
        "SPLIT": _SPLIT_POSITIONS,
        "BLOCK_POSITIONS": kept.shape[2],
        "PDL": overlaps(kept),
        "launch_pdl": overlaps(kept),
    }
    if num_new == 1 and is_short:
        decode_short[grid](*arguments, num_warps=1, **options)
    else:
        rows = max(MIN_DOT, triton.next_power_of_2(num_new * shape.group))
        _decode[grid](*arguments, NEW=num_new, ROWS=rows, num_warps=4, num_stages=2, **options)


def _join(
    parts: Tensor, weights: Tensor, positions: Tensor, max_splits: int, result: Tensor
) -> None:
    """Join the splits of each row; ``max_splits`` is that of the longest possible row.

    A sum over only this step's splits would round depending on the longest row.
    """
    num_tokens, num_heads, num_splits, head_dim = parts.shape
    _join_splits[(num_tokens, num_heads)](
        *(parts, weights, positions, result, num_splits),
        NEW=num_tokens // len(positions),
        HEAD_DIM=head_dim,
        SPLITS=triton.next_power_of_2(max_splits),
        SPLIT=_SPLIT_POSITIONS,
        PDL=overlaps(parts),
        num_warps=1,
        launch_pdl=overlaps(parts),
    )


@triton.jit(do_not_specialize=["num_rotations", "num_splits"])  # or rounding depends on the batch
def _decode(
    joined, query_weight, key_weight, epsilon, cosines, sines, num_rotations, kept, kind_stride,
    table, table_stride, slots, positions, parts, weights, num_splits,
    NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr, NEW: tl.constexpr, ROWS: tl.constexpr,
    HALF: tl.constexpr, RUN: tl.constexpr, SPLIT: tl.constexpr, BLOCK_POSITIONS: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    HEAD_DIM: tl.constexpr = 2 * HALF
    NUM_HEADS: tl.constexpr = NUM_KV_HEADS * GROUP
    WIDTH: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    row, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    first, start = tl.load(positions + row).to(tl.int32), split * SPLIT
    blocks, keys = table + tl.load(slots + row) * table_stride, kept + kv_head * HEAD_DIM
    if PDL:
        # Nothing is read yet, so earlier writes need not be complete.
        past = start + tl.arange(0, SPLIT)
        ahead = offsets(blocks, past, past < first, NUM_KV_HEADS, HEAD_DIM, BLOCK_POSITIONS)
        ahead = keys + tl.where(past < first, ahead, 0)[:, None]
        prefetch_rows(ahead, HEAD_DIM)
        prefetch_rows(ahead + kind_stride, HEAD_DIM)
    await_others(PDL)
    if start < first + NEW:
        rows, columns = tl.arange(0, ROWS), tl.arange(0, HEAD_DIM)[None, :]
        number = rows // GROUP  # of a query's position among the new ones
        token, head = row * NEW + number, kv_head * GROUP + rows % GROUP
        turns, source = token % num_rotations, joined + token * WIDTH + head * HEAD_DIM
        query = normed_and_rotated(
            source, query_weight, cosines, sines, turns, number < NEW, epsilon, HALF
        )
        end, limits = tl.minimum(start + SPLIT, first), first + number
        largest, total, sums = attend_kept(
            query, limits, keys, kind_stride, blocks, start, end, NUM_KV_HEADS, RUN, BLOCK_POSITIONS
        )
        if first < start + SPLIT:
            there, at, new = rows < NEW, first + rows, row * NEW + rows
            turn, source = new % num_rotations, joined + new * WIDTH
            source += (NUM_HEADS + kv_head) * HEAD_DIM
            key = normed_and_rotated(source, key_weight, cosines, sines, turn, there, epsilon, HALF)
            values = source[:, None] + NUM_KV_HEADS * HEAD_DIM + columns
            value = tl.load(values, mask=there[:, None], other=0.0)
            places = keys + offsets(blocks, at, there, NUM_KV_HEADS, HEAD_DIM, BLOCK_POSITIONS)
            _store_both(places, kind_stride, key, value, there)
            visible = there[None, :] & (rows[None, :] <= number[:, None])
            largest, total, sums = take_in(query, key, value, visible, largest, total, sums)
        place = (token * NUM_HEADS + head) * num_splits + split
        target = parts + place[:, None] * HEAD_DIM + columns
        tl.store(target, sums / total[:, None], mask=(number < NEW)[:, None])
        if num_splits > 1:
            tl.store(weights + place, largest + tl.log(total), mask=number < NEW)


@triton.jit
def _store_both(places, kind_stride, key, value, there):
    places = places[:, None] + tl.arange(0, key.shape[1])[None, :]
    tl.store(places, key, mask=there[:, None])
    tl.store(places + kind_stride, value, mask=there[:, None])


@triton.jit(do_not_specialize=["num_splits"])
def _join_splits(
    parts, weights, positions, result, num_splits,
    NEW: tl.constexpr, HEAD_DIM: tl.constexpr, SPLITS: tl.constexpr, SPLIT: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    token = tl.program_id(0).to(tl.int64)
    row = token * tl.num_programs(1) + tl.program_id(1)
    first = tl.load(positions + token // NEW).to(tl.int32)
    splits = tl.arange(0, SPLITS)
    columns = tl.arange(0, HEAD_DIM)
    there = splits * SPLIT < first + NEW
    weight = tl.load(weights + row * num_splits + splits, mask=there, other=-float("inf"))
    weight = tl.exp(weight - tl.max(weight, axis=0))
    weight = weight / tl.sum(weight, axis=0)
    at = (row * num_splits + splits)[:, None] * HEAD_DIM + columns[None, :]
    part = tl.load(parts + at, mask=there[:, None], other=0.0)
    tl.store(result + row * HEAD_DIM + columns, tl.sum(part * weight[:, None], axis=0))
