"""Attention of single positions over the cache of slots, read where it lies.

A slot's positions are attended to in splits of a fixed size, so that a row's result depends on its
own length alone: how many splits are launched follows from the longest row and changes nothing.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

_SPLIT_POSITIONS = 256
_BLOCK_POSITIONS = 64
_MIN_DOT = 16  # rows that a matrix instruction wants


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Heads of queries, heads of keys, and the width of one."""

    num_heads: int
    num_kv_heads: int
    head_dim: int


def norm_rotate_keep(
    joined: Tensor,
    shape: HeadShape,
    norms: tuple[Tensor, Tensor, float],
    rotation: tuple[Tensor, Tensor],
    kept: Tensor,
    places: tuple[Tensor, Tensor],
) -> Tensor:
    """Norm and rotate new queries and keys; put keys and values into a layer's cache.

    Args:
        joined: ``[num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]``.
        shape: of the heads.
        norms: weights of the norms of queries and keys, and their epsilon.
        rotation: cosines and sines, ``[num_rotations, head_dim]``; token ``t`` takes row
            ``t % num_rotations``.
        kept: ``[2, num_slots, max_positions, num_kv_heads, head_dim]``.
        places: slot and position of each token, int64 ``[num_tokens]``.

    Returns:
        Queries, ``[num_tokens, num_heads, head_dim]``.
    """
    num_tokens = joined.shape[0]
    queries = joined.new_empty(num_tokens, shape.num_heads, shape.head_dim)
    query_weight, key_weight, epsilon = norms
    cosines, sines = rotation
    slots, positions = places
    _norm_rotate_keep[(num_tokens, shape.num_heads + 2 * shape.num_kv_heads)](
        joined.contiguous(),
        query_weight,
        key_weight,
        cosines.contiguous(),
        sines.contiguous(),
        slots,
        positions,
        queries,
        kept,
        epsilon,
        cosines.shape[0],
        kept.stride(0),
        kept.stride(1),
        NUM_HEADS=shape.num_heads,
        NUM_KV_HEADS=shape.num_kv_heads,
        HALF=shape.head_dim // 2,
        num_warps=1,
    )
    return queries


def attend(
    queries: Tensor, kept: Tensor, places: tuple[Tensor, Tensor], num_visible: int
) -> Tensor:
    """Attend from each token to its slot's positions up to its own.

    Args:
        queries: ``[num_tokens, num_heads, head_dim]``.
        kept: ``[2, num_slots, max_positions, num_kv_heads, head_dim]``.
        places: slot and position of each token, int64 ``[num_tokens]``.
        num_visible: at least the largest position plus one.

    Returns:
        Shape of the queries.
    """
    num_tokens, num_heads, head_dim = queries.shape
    num_kv_heads = kept.shape[3]
    num_splits = triton.cdiv(num_visible, _SPLIT_POSITIONS)
    slots, positions = places
    result = torch.empty_like(queries)
    is_whole = num_splits == 1
    shape = (num_tokens, num_heads, num_splits)
    parts = result if is_whole else queries.new_empty((*shape, head_dim), dtype=torch.float32)
    weights = result if is_whole else queries.new_empty(shape, dtype=torch.float32)
    group = num_heads // num_kv_heads
    block = min(_BLOCK_POSITIONS, max(_MIN_DOT, triton.next_power_of_2(kept.shape[2])))
    _attend_split[(num_tokens, num_kv_heads, num_splits)](
        queries,
        kept,
        slots,
        positions,
        parts,
        weights,
        head_dim**-0.5,
        kept.stride(0),
        kept.stride(1),
        num_splits,
        NUM_KV_HEADS=num_kv_heads,
        GROUP=group,
        ROWS=max(_MIN_DOT, triton.next_power_of_2(group)),
        HEAD_DIM=head_dim,
        BLOCK=block,
        SPLIT=_SPLIT_POSITIONS,
        num_warps=4,
        num_stages=2,
    )
    if not is_whole:
        _join_splits[(num_tokens, num_heads)](
            parts,
            weights,
            positions,
            result,
            num_splits,
            HEAD_DIM=head_dim,
            SPLITS=triton.next_power_of_2(num_splits),
            SPLIT=_SPLIT_POSITIONS,
            num_warps=1,
        )
    return result


@triton.jit
def _norm_rotate_keep(
    joined,
    query_weight,
    key_weight,
    cosines,
    sines,
    slots,
    positions,
    queries,
    kept,
    epsilon,
    num_rotations,
    kind_stride,
    slot_stride,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    lower = tl.arange(0, HALF)
    upper = lower + HALF
    source = joined + (token * (NUM_HEADS + 2 * NUM_KV_HEADS) + head) * 2 * HALF
    first = tl.load(source + lower)
    second = tl.load(source + upper)
    if head < NUM_HEADS + NUM_KV_HEADS:
        weight = query_weight if head < NUM_HEADS else key_weight
        kind = first.dtype
        a = first.to(tl.float32)
        b = second.to(tl.float32)
        mean = (tl.sum(a * a, axis=0) + tl.sum(b * b, axis=0)) / (2 * HALF)
        scale = tl.rsqrt(mean + epsilon)
        a = (a * scale).to(kind).to(tl.float32) * tl.load(weight + lower).to(tl.float32)
        b = (b * scale).to(kind).to(tl.float32) * tl.load(weight + upper).to(tl.float32)
        a = a.to(kind).to(tl.float32)
        b = b.to(kind).to(tl.float32)
        at = (token % num_rotations) * 2 * HALF
        cosine = tl.load(cosines + at + lower).to(tl.float32)
        sine = tl.load(sines + at + lower).to(tl.float32)
        first = ((a * cosine).to(kind).to(tl.float32) - (b * sine).to(kind).to(tl.float32)).to(kind)
        second = ((b * cosine).to(kind).to(tl.float32) + (a * sine).to(kind).to(tl.float32)).to(
            kind
        )
    if head < NUM_HEADS:
        target = queries + (token * NUM_HEADS + head) * 2 * HALF
    else:
        kv_head = head - NUM_HEADS
        part = kv_head // NUM_KV_HEADS
        row = tl.load(positions + token) * NUM_KV_HEADS + kv_head % NUM_KV_HEADS
        slot = tl.load(slots + token)
        target = kept + part.to(tl.int64) * kind_stride + slot * slot_stride + row * 2 * HALF
    tl.store(target + lower, first)
    tl.store(target + upper, second)


@triton.jit
def _attend_split(
    queries,
    kept,
    slots,
    positions,
    parts,
    weights,
    scale,
    kind_stride,
    slot_stride,
    num_splits,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    SPLIT: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    length = tl.load(positions + token).to(tl.int32) + 1
    start = split * SPLIT
    if start < length:
        end = tl.minimum(start + SPLIT, length)
        rows = tl.arange(0, ROWS)
        columns = tl.arange(0, HEAD_DIM)
        heads = token * NUM_KV_HEADS * GROUP + kv_head * GROUP + rows
        is_row = rows < GROUP
        query = tl.load(
            queries + heads[:, None] * HEAD_DIM + columns[None, :], mask=is_row[:, None], other=0.0
        )
        keys = kept + tl.load(slots + token) * slot_stride + kv_head * HEAD_DIM
        largest = tl.full([ROWS], -float("inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        sums = tl.zeros([ROWS, HEAD_DIM], tl.float32)
        for block in range(start, end, BLOCK):
            at = block + tl.arange(0, BLOCK)
            there = at < end
            offsets = at[:, None].to(tl.int64) * NUM_KV_HEADS * HEAD_DIM + columns[None, :]
            key = tl.load(keys + offsets, mask=there[:, None], other=0.0)
            value = tl.load(keys + kind_stride + offsets, mask=there[:, None], other=0.0)
            score = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
            score = tl.where(there[None, :], score, -float("inf"))
            newest = tl.maximum(largest, tl.max(score, axis=1))
            shrink = tl.exp(largest - newest)
            weight = tl.exp(score - newest[:, None])
            total = total * shrink + tl.sum(weight, axis=1)
            sums = sums * shrink[:, None]
            sums += tl.dot(weight.to(value.dtype), value, input_precision="ieee")
            largest = newest
        sums = sums / total[:, None]
        target = (heads * num_splits + split)[:, None] * HEAD_DIM + columns[None, :]
        tl.store(parts + target, sums, mask=is_row[:, None])
        if num_splits > 1:
            tl.store(weights + heads * num_splits + split, largest + tl.log(total), mask=is_row)


@triton.jit
def _join_splits(
    parts,
    weights,
    positions,
    result,
    num_splits,
    HEAD_DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    SPLIT: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    row = token * tl.num_programs(1) + tl.program_id(1)
    length = tl.load(positions + token).to(tl.int32) + 1
    splits = tl.arange(0, SPLITS)
    columns = tl.arange(0, HEAD_DIM)
    there = splits * SPLIT < length
    weight = tl.load(weights + row * num_splits + splits, mask=there, other=-float("inf"))
    weight = tl.exp(weight - tl.max(weight, axis=0))
    weight = weight / tl.sum(weight, axis=0)
    at = (row * num_splits + splits)[:, None] * HEAD_DIM + columns[None, :]
    part = tl.load(parts + at, mask=there[:, None], other=0.0)
    tl.store(result + row * HEAD_DIM + columns, tl.sum(part * weight[:, None], axis=0))
