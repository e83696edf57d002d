"""Decode attention over a single block per row, with one new position: for the smallest caches.

There is too little work for matrix instructions: one warp per head does it without synchronisation.
"""

import triton
import triton.language as tl

from antiphon.nn.kernels.paged_common import rounded
from antiphon.nn.kernels.pdl import await_others


@triton.jit
def _halves(source, weight, cosine, sine, epsilon, HALF: tl.constexpr):
    """Norm and rotate heads, pointers ``[num_heads, HALF]`` to their halves; no weight, no norm."""
    first = tl.load(source)
    second = tl.load(source + HALF)
    kind = first.dtype
    a, b = first.to(tl.float32), second.to(tl.float32)
    if weight is not None:
        mean = (tl.sum(a * a, axis=1) + tl.sum(b * b, axis=1)) / (2 * HALF)
        scale = tl.rsqrt(mean + epsilon)[:, None]
        places = weight + tl.arange(0, HALF)[None, :]
        a = rounded(rounded(a * scale, kind) * tl.load(places).to(tl.float32), kind)
        b = rounded(rounded(b * scale, kind) * tl.load(places + HALF).to(tl.float32), kind)
    turned = rounded(a * cosine, kind) - rounded(b * sine, kind)
    partner = rounded(b * cosine, kind) + rounded(a * sine, kind)
    return turned.to(kind), partner.to(kind)


@triton.jit
def _scores(query, query_2, key, key_2, HALF: tl.constexpr):
    """Return ``[GROUP, RUN]`` scores of queries ``[GROUP, HALF]`` and keys ``[RUN, HALF]``."""
    total = query.to(tl.float32)[:, None, :] * key.to(tl.float32)[None, :, :]
    total += query_2.to(tl.float32)[:, None, :] * key_2.to(tl.float32)[None, :, :]
    return tl.sum(total, axis=2) * ((2 * HALF) ** -0.5)


@triton.jit(do_not_specialize=["num_rotations", "num_splits"])
def decode_short(
    joined, query_weight, key_weight, epsilon, cosines, sines, num_rotations, kept, kind_stride,
    table, table_stride, slots, positions, result, weights, num_splits,
    NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr, HALF: tl.constexpr, RUN: tl.constexpr,
    SPLIT: tl.constexpr, BLOCK_POSITIONS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Write the newest position of each row and attend from it; see `paged_attention.decode`."""
    HEAD_DIM: tl.constexpr = 2 * HALF
    NUM_HEADS: tl.constexpr = NUM_KV_HEADS * GROUP
    WIDTH: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    row, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, HALF)[None, :]
    place = tl.load(positions + row).to(tl.int32)
    block = tl.load(table + tl.load(slots + row) * table_stride).to(tl.int64)
    keys = kept + (block * BLOCK_POSITIONS * NUM_KV_HEADS + kv_head) * HEAD_DIM + columns
    turn = (row % num_rotations) * HEAD_DIM + columns
    cosine, sine = tl.load(cosines + turn).to(tl.float32), tl.load(sines + turn).to(tl.float32)
    await_others(PDL)
    at = tl.arange(0, RUN)
    there = at < place
    past, mask = keys + at[:, None] * NUM_KV_HEADS * HEAD_DIM, there[:, None]
    key, key_2 = tl.load(past, mask, 0.0), tl.load(past + HALF, mask, 0.0)
    value = tl.load(past + kind_stride, mask, 0.0)
    value_2 = tl.load(past + kind_stride + HALF, mask, 0.0)
    heads = kv_head * GROUP + tl.arange(0, GROUP)
    source = joined + row * WIDTH
    query, query_2 = _halves(
        source + heads[:, None] * HEAD_DIM + columns, query_weight, cosine, sine, epsilon, HALF
    )
    own = source + (NUM_HEADS + kv_head) * HEAD_DIM + columns
    new_value = tl.load(own + NUM_KV_HEADS * HEAD_DIM)
    new_value_2 = tl.load(own + NUM_KV_HEADS * HEAD_DIM + HALF)
    new_key, new_key_2 = _halves(own, key_weight, cosine, sine, epsilon, HALF)
    target = keys + place * NUM_KV_HEADS * HEAD_DIM
    tl.store(target, new_key)
    tl.store(target + HALF, new_key_2)
    tl.store(target + kind_stride, new_value)
    tl.store(target + kind_stride + HALF, new_value_2)

    score = tl.where(there[None, :], _scores(query, query_2, key, key_2, HALF), -float("inf"))
    own_score = tl.sum(query.to(tl.float32) * new_key.to(tl.float32), axis=1)
    own_score += tl.sum(query_2.to(tl.float32) * new_key_2.to(tl.float32), axis=1)
    own_score = own_score * (HEAD_DIM**-0.5)
    largest = tl.maximum(tl.max(score, axis=1), own_score)
    weight, own_weight = tl.exp(score - largest[:, None]), tl.exp(own_score - largest)
    total = (tl.sum(weight, axis=1) + own_weight)[:, None]
    sums = tl.sum(weight[:, :, None] * value.to(tl.float32)[None, :, :], axis=1)
    sums_2 = tl.sum(weight[:, :, None] * value_2.to(tl.float32)[None, :, :], axis=1)
    sums += own_weight[:, None] * new_value.to(tl.float32)
    sums_2 += own_weight[:, None] * new_value_2.to(tl.float32)
    target = result + (row * NUM_HEADS + heads[:, None]) * HEAD_DIM + columns
    tl.store(target, sums / total)
    tl.store(target + HALF, sums_2 / total)
