"""Prefill attention over paged keys and values: one kernel writes them, one attends by tiles."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.attention import TILE_POSITIONS
from antiphon.nn.kernels.paged_common import (
    Projected,
    attend_kept,
    normed_and_rotated,
    offsets,
    run_positions,
)

_MAX_ROWS = 128
"""Most query heads of a tile per program, limited by registers."""


def keep(
    projected: Projected, kept: Tensor, table: Tensor, places: tuple[Tensor, Tensor]
) -> Tensor:
    """Norm and rotate new queries and keys; write keys and values into their blocks.

    Args:
        kept: keys and values as for `antiphon.nn.kernels.paged_attention.decode`.
        table: blocks as for `antiphon.nn.kernels.paged_attention.decode`.
        places: slot and position of each token, int64 ``[num_tokens]``.

    Returns:
        Queries, ``[num_tokens, num_heads, head_dim]``.
    """
    shape = projected.shape
    num_tokens = len(projected.joined)
    queries = projected.joined.new_empty(num_tokens, shape.num_heads, shape.head_dim)
    slots, positions = places
    _keep_token[(num_tokens, 2)](
        *projected.arguments,
        *(kept, kept.stride(0), table, table.stride(0), slots, positions, queries),
        NUM_HEADS=shape.num_heads, NUM_KV_HEADS=shape.num_kv_heads,
        QUERY_ROWS=triton.next_power_of_2(shape.num_heads),
        KEY_ROWS=triton.next_power_of_2(shape.num_kv_heads), HALF=shape.head_dim // 2,
        BLOCK_POSITIONS=kept.shape[2],
        num_warps=4,
    )  # fmt: skip
    return queries


def attend_tiles(
    queries: Tensor, kept: Tensor, table: Tensor, tiles: Tensor, result: Tensor | None = None
) -> Tensor:
    """Attend from tokens to the cached positions of their slots, each up to its own.

    Args:
        queries: ``[num_tokens, num_heads, head_dim]``.
        kept: keys and values as for `keep`, which has written those of the tokens.
        table: blocks as for `keep`.
        tiles: int64 ``[num_tiles, 4]``: slot, first token, its position, and number of tokens, at
            most `TILE_POSITIONS`, with consecutive positions.
        result: output tensor, shape of the queries; ``None``: allocate one.

    Returns:
        Shape of the queries; tokens outside all tiles are unchanged, or undefined.
    """
    _, num_heads, head_dim = queries.shape
    num_kv_heads = kept.shape[3]
    result = torch.empty_like(queries) if result is None else result
    group = num_heads // num_kv_heads
    rows = min(triton.next_power_of_2(TILE_POSITIONS * group), max(_MAX_ROWS, group))
    part = min(rows // group, TILE_POSITIONS)
    _attend_tile[(len(tiles), num_kv_heads, triton.cdiv(TILE_POSITIONS, part))](
        *(queries, kept, kept.stride(0), table, table.stride(0), tiles, result),
        NUM_KV_HEADS=num_kv_heads, GROUP=group, ROWS=triton.next_power_of_2(rows), PART=part,
        HEAD_DIM=head_dim, RUN=run_positions(table, kept), BLOCK_POSITIONS=kept.shape[2],
        num_warps=4, num_stages=2,
    )  # fmt: skip
    return result


@triton.jit(do_not_specialize=["num_rotations"])
def _keep_token(
    joined, query_weight, key_weight, epsilon, cosines, sines, num_rotations, kept, kind_stride,
    table, table_stride, slots, positions, queries,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, QUERY_ROWS: tl.constexpr,
    KEY_ROWS: tl.constexpr, HALF: tl.constexpr, BLOCK_POSITIONS: tl.constexpr,
):  # fmt: skip
    HEAD_DIM: tl.constexpr = 2 * HALF
    token = tl.program_id(0).to(tl.int64)
    source = joined + token * (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    turn, columns = token % num_rotations, tl.arange(0, HEAD_DIM)[None, :]
    if tl.program_id(1) == 0:
        query_rows = tl.arange(0, QUERY_ROWS)
        is_query, turns = query_rows < NUM_HEADS, turn + tl.zeros_like(query_rows)
        heads = source + query_rows * HEAD_DIM
        query = normed_and_rotated(
            heads, query_weight, cosines, sines, turns, is_query, epsilon, HALF
        )
        target = queries + (token * NUM_HEADS + query_rows)[:, None] * HEAD_DIM + columns
        tl.store(target, query, mask=is_query[:, None])
    else:
        key_rows = tl.arange(0, KEY_ROWS)
        is_key, key_turns = key_rows < NUM_KV_HEADS, turn + tl.zeros_like(key_rows)
        key_heads = source + (NUM_HEADS + key_rows) * HEAD_DIM
        key = normed_and_rotated(
            key_heads, key_weight, cosines, sines, key_turns, is_key, epsilon, HALF
        )
        values = (key_heads + NUM_KV_HEADS * HEAD_DIM)[:, None] + columns
        value = tl.load(values, mask=is_key[:, None], other=0.0)
        blocks = table + tl.load(slots + token) * table_stride
        at = tl.load(positions + token)
        place = kept + offsets(blocks, at, at >= 0, NUM_KV_HEADS, HEAD_DIM, BLOCK_POSITIONS)
        place = place + key_rows[:, None] * HEAD_DIM + columns
        tl.store(place, key, mask=is_key[:, None])
        tl.store(place + kind_stride, value, mask=is_key[:, None])


@triton.jit
def _attend_tile(
    queries, kept, kind_stride, table, table_stride, tiles, result,
    NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, PART: tl.constexpr,
    HEAD_DIM: tl.constexpr, RUN: tl.constexpr, BLOCK_POSITIONS: tl.constexpr,
):  # fmt: skip
    tile = tiles + tl.program_id(0) * 4
    kv_head = tl.program_id(1)
    done = tl.program_id(2) * PART
    count = tl.minimum(tl.load(tile + 3).to(tl.int32), done + PART)
    if count > done:
        first = tl.load(tile + 2).to(tl.int32)
        rows = tl.arange(0, ROWS)
        number = done + rows // GROUP
        is_row = (number < count)[:, None]
        heads = (tl.load(tile + 1) + number) * NUM_KV_HEADS * GROUP + kv_head * GROUP + rows % GROUP
        heads = heads[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
        query = tl.load(queries + heads, mask=is_row, other=0.0)
        blocks, keys = table + tl.load(tile) * table_stride, kept + kv_head * HEAD_DIM
        end, limits = first + count, first + number
        _, total, sums = attend_kept(
            query, limits, keys, kind_stride, blocks, 0, end, NUM_KV_HEADS, RUN, BLOCK_POSITIONS
        )
        tl.store(result + heads, sums / total[:, None], mask=is_row)
