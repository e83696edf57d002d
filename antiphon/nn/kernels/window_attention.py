"""Attention of a few new frames to a window of frames before them, in rings of slots.

One program computes a head of a row: it rotates the new frames, attends, and writes keys and values
into the ring. Keys are always read in the ring's order, so the grouping of frames changes nothing.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.split import dot
from antiphon.nn.kernels.stream_columns import Rows, offsets_of, positions_of, slots_of

_MAX_KEYS_AT_ONCE = 128
_KEYS_OF_MANY = 64
"""Keys per iteration if not all fit into registers."""
_MIN_QUERIES = 16  # minimum rows of a matrix instruction


@dataclass(frozen=True, slots=True)
class KVRing:
    """Ring of a layer's keys and values per stream.

    Attributes:
        offset: offset in a slot's memory of ``[num_keys, 2 * num_kv_heads, head_dim]``: keys,
            values.
        num_keys: size of the ring, with position ``p`` at ``p % num_keys``; at least a window plus
            the frames of a call, minus one.
        window: keys visible to a frame, itself included.
    """

    offset: int
    num_keys: int
    window: int
    num_heads: int
    num_kv_heads: int
    head_dim: int


def attend_window(joined: Tensor, ring: KVRing, rows: Rows) -> Tensor:
    """Attend from new frames, and cache their keys and values.

    Args:
        joined: ``[num_frames, (num_heads + 2 * num_kv_heads) * head_dim]``: queries, keys, values,
            not rotated yet.
        rows: rows of ``joined``.

    Returns:
        ``[num_frames, num_heads * head_dim]``.
    """
    num_frames = joined.shape[0]
    assert rows.max_row_frames <= ring.num_keys - ring.window + 1
    group = ring.num_heads // ring.num_kv_heads
    result = joined.new_empty(num_frames, ring.num_heads * ring.head_dim)
    is_early = overlaps(joined)
    _attend_window[(num_frames, ring.num_kv_heads)](
        joined, rows.memory, rows.table, rows.rotation, result,
        rows.table.stride(0), rows.memory.stride(0), ring.offset, ring.head_dim**-0.5,
        NUM_HEADS=ring.num_heads, NUM_KV_HEADS=ring.num_kv_heads, HEAD_DIM=ring.head_dim,
        WINDOW=ring.window, NUM_KEYS=ring.num_keys, KEYS=_num_keys_at_once(ring),
        QUERIES=max(_MIN_QUERIES, triton.next_power_of_2(rows.max_row_frames * group)),
        OVERLAPS=is_early, launch_pdl=is_early, num_warps=4,
    )  # fmt: skip
    return result


def _num_keys_at_once(ring: KVRing) -> int:
    """Return the number of keys per iteration: all, if they fit into registers."""
    whole: int = triton.next_power_of_2(ring.num_keys)
    return whole if whole <= _MAX_KEYS_AT_ONCE else _KEYS_OF_MANY


@triton.jit
def _rotated(start, rotation, frame, is_new, mask, HEAD_DIM: tl.constexpr):
    """Load heads, ``[N, HEAD_DIM]``, and rotate the new ones by their frame's rotation."""
    HALF: tl.constexpr = HEAD_DIM // 2
    number = tl.arange(0, HEAD_DIM)
    partner = (number + HALF) % HEAD_DIM
    value = tl.load(start[:, None] + number[None, :], mask=mask[:, None], other=0.0)
    other = tl.load(start[:, None] + partner[None, :], mask=mask[:, None], other=0.0)
    other = tl.where((number < HALF)[None, :], -other.to(tl.float32), other.to(tl.float32))
    places = rotation + frame[:, None] * HEAD_DIM + (number % HALF)[None, :]
    cosine = tl.load(places, mask=is_new[:, None], other=1.0)
    sine = tl.load(places + HALF, mask=is_new[:, None], other=0.0)
    return (value.to(tl.float32) * cosine + other * sine).to(value.dtype)


@triton.jit
def _attend_window(
    joined, memory, table, rotation, result, size, row_size, offset, scale,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    WINDOW: tl.constexpr, NUM_KEYS: tl.constexpr, KEYS: tl.constexpr, QUERIES: tl.constexpr,
    OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    GROUP: tl.constexpr = NUM_HEADS // NUM_KV_HEADS
    NUM_JOINED: tl.constexpr = NUM_HEADS + 2 * NUM_KV_HEADS
    row, kv_head = tl.program_id(0), tl.program_id(1)
    first = tl.load(offsets_of(table, size) + row)
    num_frames = tl.load(offsets_of(table, size) + row + 1) - first
    if num_frames == 0:  # a pass has at most as many rows as frames
        return
    start = tl.load(positions_of(table, size) + first)
    slot = tl.load(slots_of(table, size) + first).to(tl.int64)
    number = tl.arange(0, HEAD_DIM)
    frames = joined + first.to(tl.int64) * NUM_JOINED * HEAD_DIM
    rotation += first * HEAD_DIM

    query = tl.arange(0, QUERIES)
    is_query = query < num_frames * GROUP
    head = kv_head * GROUP + query % GROUP
    query_position = start + query // GROUP
    query_start = frames + ((query // GROUP) * NUM_JOINED + head) * HEAD_DIM
    queries = _rotated(query_start, rotation, query // GROUP, is_query, is_query, HEAD_DIM)

    newest = start + num_frames - 1
    ring = memory + slot * row_size + offset
    highest = tl.full((QUERIES,), -1e30, tl.float32)
    weight_sum = tl.zeros((QUERIES,), tl.float32)
    attended = tl.zeros((QUERIES, HEAD_DIM), tl.float32)
    for first_key in tl.range(0, NUM_KEYS, KEYS, num_stages=1):
        key = first_key + tl.arange(0, KEYS)
        held = newest - (newest - key + 2 * NUM_KEYS) % NUM_KEYS
        is_key = (key < NUM_KEYS) & (held >= 0)
        is_new = is_key & (held >= start)
        frame = tl.where(is_new, held - start, 0)
        new_key = frames + (frame * NUM_JOINED + NUM_HEADS + kv_head) * HEAD_DIM
        kept_key = ring + (key * (2 * NUM_KV_HEADS) + kv_head) * HEAD_DIM
        key_start = tl.where(is_new, new_key, kept_key)
        keys = _rotated(key_start, rotation, frame, is_new, is_key, HEAD_DIM)
        value_start = key_start + NUM_KV_HEADS * HEAD_DIM
        values = tl.load(value_start[:, None] + number[None, :], mask=is_key[:, None], other=0.0)

        scores = dot(queries, tl.trans(keys), tl.zeros((QUERIES, KEYS), tl.float32)) * scale
        distance = query_position[:, None] - held[None, :]
        is_visible = is_key[None, :] & (distance >= 0) & (distance < WINDOW)
        scores = tl.where(is_visible, scores, -1e30)
        above = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp(scores - above[:, None])
        kept = tl.exp(highest - above)  # scales the sums so far

        highest = above
        weight_sum = weight_sum * kept + tl.sum(weights, axis=1)
        attended = dot(weights.to(values.dtype), values, attended * kept[:, None])
        tl.store(kept_key[:, None] + number[None, :], keys, mask=is_new[:, None])
        kept_value = kept_key + NUM_KV_HEADS * HEAD_DIM
        tl.store(kept_value[:, None] + number[None, :], values, mask=is_new[:, None])
    places = result + first.to(tl.int64) * NUM_HEADS * HEAD_DIM
    places += ((query // GROUP) * NUM_HEADS + head) * HEAD_DIM
    spots = places[:, None] + number[None, :]
    attended = attended / weight_sum[:, None]
    tl.store(spots, attended.to(result.dtype.element_ty), mask=is_query[:, None])
