"""Attention of new frames to a stream's cached frames, and chunk by chunk among each other.

A stream caches keys and values of its reference recording, which stay, and of its latest frames, in
a ring. One kernel rotates a layer's product and writes keys and values; the other one attends.
Frames see all frames of their own chunk and before it.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.snake import narrowed

NUM_NUMBERS = 5
_KEYS = 64  # per iteration
_FEW, _MANY = 16, 64
"""Queries of a program; the smaller number where few programs would result."""
_MANY_PROGRAMS = 128


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Rows of a pass; `num_passes` consecutive rows per stream.

    Attributes:
        numbers: state of each stream, int64 ``[num_streams, NUM_NUMBERS]``: its slot (the number of
            slots for padding); number of the first new frame, negative for frames to skip; frames
            of its recording; end of chunks modulo their size; and the number of the frame after the
            last one.
        cos: cosines, f32 ``[num_streams, num_frames, head_dim / 2]``, for the first head, whose
            neighbours are rotated in pairs. Other heads are not rotated.
        sin: sines, shaped like ``cos``.
        ring_frames: frames of the ring, which follows a slot's recording.
    """

    numbers: Tensor
    cos: Tensor
    sin: Tensor
    chunk_frames: int
    ring_frames: int


def attend_chunks(joined: Tensor, context: Tensor, rows: ChunkRows) -> Tensor:
    """Attend from new frames, and cache their keys and values.

    Args:
        joined: queries, keys and values, ``[num_streams * num_passes * num_frames, 3 * num_heads *
            head_dim]``.
        context: ``[num_slots, num_passes, capacity, 2, num_heads, head_dim]``; frames that are
            neither new nor visible are not accessed.
        rows: rows of ``joined``.

    Returns:
        ``[len(joined), num_heads * head_dim]`` in the type of ``joined``.
    """
    num_slots, num_passes, _, _, num_heads, head_dim = context.shape
    num_streams, num_frames = rows.cos.shape[:2]
    assert joined.is_contiguous()
    assert context.is_contiguous()
    assert rows.cos.is_contiguous()
    assert rows.sin.is_contiguous()
    num_rows, width = num_streams * num_passes, num_heads * head_dim
    result = joined.new_empty(len(joined), width)
    turned = joined.new_empty(len(joined), head_dim)
    sizes = (num_slots, context.stride(0), context.stride(1), num_frames)
    is_early = overlaps(joined)
    _place[(len(joined),)](
        joined, context, turned, rows.numbers, rows.cos, rows.sin, *sizes,
        WIDTH=width, HEAD_DIM=head_dim, NUM_PASSES=num_passes, NUMBERS=NUM_NUMBERS,
        RING=rows.ring_frames, BLOCK=triton.next_power_of_2(width), PDL=is_early,
        num_warps=4, launch_pdl=is_early,
    )  # fmt: skip
    num_blocks = triton.cdiv(num_frames, _MANY)
    queries = _MANY if num_blocks * num_heads * num_rows >= _MANY_PROGRAMS else _FEW
    _attend_chunks[(triton.cdiv(num_frames, queries), num_heads, num_rows)](
        joined, context, turned, rows.numbers, result, *sizes, head_dim**-0.5,
        WIDTH=width, HEAD_DIM=head_dim, NUM_PASSES=num_passes, NUMBERS=NUM_NUMBERS,
        CHUNK=rows.chunk_frames, RING=rows.ring_frames, QUERIES=queries, KEYS=_KEYS,
        PDL=is_early, num_warps=4 if queries == _MANY else 2, num_stages=3, launch_pdl=is_early,
    )  # fmt: skip
    return result


@triton.jit
def _turn(source, target, cosine, sine, half) -> None:
    """Rotate neighbours of a head as pairs; ``half``: indices of the pairs."""
    even = tl.load(source + 2 * half).to(tl.float32)
    odd = tl.load(source + 2 * half + 1).to(tl.float32)
    first, second = even * cosine - odd * sine, odd * cosine + even * sine
    tl.store(target + 2 * half, narrowed(first, target.dtype.element_ty))
    tl.store(target + 2 * half + 1, narrowed(second, target.dtype.element_ty))


@triton.jit(do_not_specialize=["num_slots", "num_frames"])
def _place(
    joined, context, turned, numbers, cos, sin, num_slots, slot_size, pass_size, num_frames,
    WIDTH: tl.constexpr, HEAD_DIM: tl.constexpr, NUM_PASSES: tl.constexpr,
    NUMBERS: tl.constexpr, RING: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    token = tl.program_id(0)
    row, frame = token // num_frames, token % num_frames
    stream = row // NUM_PASSES
    entry = numbers + stream * NUMBERS
    slot, number = tl.load(entry), tl.load(entry + 1).to(tl.int32) + frame
    num_pinned = tl.load(entry + 2).to(tl.int32)
    half = tl.arange(0, HEAD_DIM // 2)
    turn = (stream * num_frames + frame) * (HEAD_DIM // 2) + half
    cosine, sine = tl.load(cos + turn), tl.load(sin + turn)
    source = joined + token.to(tl.int64) * (3 * WIDTH)
    _turn(source, turned + token.to(tl.int64) * HEAD_DIM, cosine, sine, half)
    if (number >= 0) & (slot < num_slots):
        place = tl.where(number < num_pinned, number, num_pinned + (number - num_pinned) % RING)
        memory = context + slot * slot_size + (row % NUM_PASSES).to(tl.int64) * pass_size
        memory += place.to(tl.int64) * (2 * WIDTH)
        _turn(source + WIDTH, memory, cosine, sine, half)
        column = tl.arange(0, BLOCK)
        is_key, is_value = (column >= HEAD_DIM) & (column < WIDTH), column < WIDTH
        keys = tl.load(source + WIDTH + column, mask=is_key, other=0.0)
        values = tl.load(source + 2 * WIDTH + column, mask=is_value, other=0.0)
        tl.store(memory + column, keys.to(context.dtype.element_ty), mask=is_key)
        tl.store(memory + WIDTH + column, values.to(context.dtype.element_ty), mask=is_value)


@triton.jit(do_not_specialize=["num_slots", "num_frames"])
def _attend_chunks(
    joined, context, turned, numbers, result, num_slots, slot_size, pass_size, num_frames, scale,
    WIDTH: tl.constexpr, HEAD_DIM: tl.constexpr, NUM_PASSES: tl.constexpr,
    NUMBERS: tl.constexpr, CHUNK: tl.constexpr, RING: tl.constexpr, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    block, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    entry = numbers + (row // NUM_PASSES) * NUMBERS
    slot, start = tl.load(entry), tl.load(entry + 1).to(tl.int32)
    num_pinned, phase = tl.load(entry + 2).to(tl.int32), tl.load(entry + 3).to(tl.int32)
    limit = tl.load(entry + 4).to(tl.int32)
    number = tl.arange(0, HEAD_DIM)[None, :]

    frame = block * QUERIES + tl.arange(0, QUERIES)
    token = (row.to(tl.int64) * num_frames + frame)[:, None]
    is_query = (frame < num_frames)[:, None]
    first_head = turned + token * HEAD_DIM + number
    other_head = joined + token * (3 * WIDTH) + head * HEAD_DIM + number
    queries = tl.load(other_head, mask=is_query & (head > 0), other=0.0)
    queries = tl.where(head > 0, queries, tl.load(first_head, mask=is_query, other=0.0))
    end = phase + (tl.maximum(start + frame - phase, 0) // CHUNK + 1) * CHUNK
    end = tl.minimum(end, limit)

    newest = start + num_frames - 1 - num_pinned
    num_places = num_pinned + tl.minimum(newest + 1, RING)
    # Until the ring wraps around, places equal frame numbers, and no frame sees those after its
    # end.
    num_places = tl.minimum(num_places, tl.where(newest < RING, tl.max(end, axis=0), num_places))
    num_places = tl.where(slot < num_slots, num_places, 0)
    memory = context + tl.minimum(slot, num_slots - 1) * slot_size
    memory += (row % NUM_PASSES).to(tl.int64) * pass_size + head * HEAD_DIM
    highest = tl.full((QUERIES,), -1e30, tl.float32)
    weight_sum = tl.zeros((QUERIES,), tl.float32)
    attended = tl.zeros((QUERIES, HEAD_DIM), tl.float32)
    for first in range(0, num_places, KEYS):
        place = first + tl.arange(0, KEYS)
        offset, is_there = place - num_pinned, place < num_places
        held = newest - (newest - offset + RING) % RING
        held = tl.where(offset < 0, place, num_pinned + held)
        spots = memory + place.to(tl.int64)[:, None] * (2 * WIDTH) + number
        keys = tl.load(spots, mask=is_there[:, None], other=0.0).to(queries.dtype)
        values = tl.load(spots + WIDTH, mask=is_there[:, None], other=0.0).to(queries.dtype)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        is_visible = is_there[None, :] & (held[None, :] < end[:, None])
        scores = tl.where(is_visible, scores, -1e30)
        above = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp(scores - above[:, None])
        kept = tl.exp(highest - above)  # scales the sums so far
        highest = above
        weight_sum = weight_sum * kept + tl.sum(weights, axis=1)
        attended = attended * kept[:, None]
        attended = tl.dot(weights.to(values.dtype), values, attended, input_precision="ieee")
    # A padding row has no visible keys.
    made = attended / tl.where(weight_sum > 0, weight_sum, 1.0)[:, None]
    spots = result + token * WIDTH + head * HEAD_DIM + number
    tl.store(spots, narrowed(made, result.dtype.element_ty), mask=is_query)
