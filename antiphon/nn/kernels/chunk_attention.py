"""Attention of new frames to those that a stream keeps, and among each other chunk by chunk.

A stream keeps keys and values of its recording, which are never given up, and of its latest frames,
in a ring. A program does some frames and a head of a row: it rotates what comes out of the layer's
product, attends to what is kept, where it is kept, then to the new frames; and the first program of
a head keeps these. Frames see all of their own chunk and all before it.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.snake import narrowed

NUM_NUMBERS = 5
_KEYS = 64  # at a time
_FEW, _MANY = 16, 64
"""Queries of a program: few where there would be hardly any programs."""
_MANY_PROGRAMS = 128


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Rows of a pass; of each stream, `num_passes` follow each other.

    Attributes:
        numbers: of each stream, int64 ``[num_streams, NUM_NUMBERS]``: its slot, of which there is
            none if it is the number of slots; number of the first new frame, below zero if the
            first new frames are none; frames of its recording; where chunks end, modulo their size;
            and the number of the frame after the last one.
        cos: f32 ``[num_streams, num_frames, head_dim / 2]``: of the first head, whose neighbours
            are turned as pairs. Other heads are not turned.
        sin: likewise.
        chunk_frames: of a chunk.
        ring_frames: of the ring, which comes after a slot's recording.
    """

    numbers: Tensor
    cos: Tensor
    sin: Tensor
    chunk_frames: int
    ring_frames: int


def attend_chunks(joined: Tensor, context: Tensor, rows: ChunkRows) -> Tensor:
    """Attend from new frames, and keep their keys and values.

    Args:
        joined: queries, keys and values, ``[num_streams * num_passes * num_frames, 3 * num_heads *
            head_dim]``.
        context: ``[num_slots, num_passes, capacity, 2, num_heads, head_dim]``; frames that are not
            new and not seen are not touched.
        rows: of ``joined``.

    Returns:
        In the type of ``joined``, ``[len(joined), num_heads * head_dim]``.
    """
    num_slots, num_passes, _, _, num_heads, head_dim = context.shape
    num_streams, num_frames = rows.cos.shape[:2]
    assert joined.is_contiguous()
    assert context.is_contiguous()
    assert rows.cos.is_contiguous()
    assert rows.sin.is_contiguous()
    result = joined.new_empty(len(joined), num_heads * head_dim)
    num_rows = num_streams * num_passes
    num_blocks = triton.cdiv(num_frames, _MANY)
    queries = _MANY if num_blocks * num_heads * num_rows >= _MANY_PROGRAMS else _FEW
    is_early = overlaps(joined)
    _attend_chunks[(triton.cdiv(num_frames, queries), num_heads, num_rows)](
        joined, context, rows.numbers, rows.cos, rows.sin, result,
        num_slots, context.stride(0), context.stride(1), num_frames, head_dim**-0.5,
        NUM_HEADS=num_heads, HEAD_DIM=head_dim, NUM_PASSES=num_passes, NUMBERS=NUM_NUMBERS,
        CHUNK=rows.chunk_frames, RING=rows.ring_frames, QUERIES=queries, KEYS=_KEYS,
        PDL=is_early, num_warps=4 if queries == _MANY else 2, num_stages=2, launch_pdl=is_early,
    )  # fmt: skip
    return result


@triton.jit
def _turned(start, cos, sin, turns, frame, mask, is_turned, STEP: tl.constexpr, D: tl.constexpr):
    """Load a head of frames, ``[N, D]``, its neighbours turned as pairs if it is the first one."""
    number = tl.arange(0, D)
    places = start + frame.to(tl.int64)[:, None] * STEP
    value = tl.load(places + number[None, :], mask=mask[:, None], other=0.0)
    is_pair = mask[:, None] & is_turned
    other = tl.load(places + (number ^ 1)[None, :], mask=is_pair, other=0.0).to(tl.float32)
    at = (turns + frame)[:, None] * (D // 2) + (number // 2)[None, :]
    cosine = tl.load(cos + at, mask=is_pair, other=1.0)
    sine = tl.load(sin + at, mask=is_pair, other=0.0)
    sine = tl.where((number % 2 == 0)[None, :], -sine, sine)
    return narrowed(value.to(tl.float32) * cosine + other * sine, value.dtype)


@triton.jit
def _added(queries, keys, values, is_visible, scale, highest, weight_sum, attended):
    """Return the sums of attention with some keys more."""
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
    scores = tl.where(is_visible, scores, -1e30)
    above = tl.maximum(highest, tl.max(scores, axis=1))
    weights = tl.exp(scores - above[:, None])
    kept = tl.exp(highest - above)  # of the sums so far
    weight_sum = weight_sum * kept + tl.sum(weights, axis=1)
    attended = attended * kept[:, None]
    attended = tl.dot(weights.to(values.dtype), values, attended, input_precision="ieee")
    return above, weight_sum, attended


@triton.jit
def _chunk_end(frame, phase, limit, CHUNK: tl.constexpr) -> tl.tensor:
    """Return the number of the first frame that a frame does not see."""
    end = phase + (tl.maximum(frame - phase, 0) // CHUNK + 1) * CHUNK
    return tl.minimum(end, limit)


@triton.jit
def _keep(memory, place, keys, values, mask, WIDTH: tl.constexpr) -> None:
    """Put keys and values, ``[N, D]``, into places of a slot."""
    number = tl.arange(0, keys.shape[1])
    spots = memory + place.to(tl.int64)[:, None] * (2 * WIDTH) + number[None, :]
    tl.store(spots, keys.to(memory.dtype.element_ty), mask=mask[:, None])
    tl.store(spots + WIDTH, values.to(memory.dtype.element_ty), mask=mask[:, None])


@triton.jit(do_not_specialize=["num_slots", "num_frames"])
def _attend_chunks(
    joined, context, numbers, cos, sin, result,
    num_slots, slot_size, pass_size, num_frames, scale,
    NUM_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, NUM_PASSES: tl.constexpr,
    NUMBERS: tl.constexpr, CHUNK: tl.constexpr, RING: tl.constexpr, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    WIDTH: tl.constexpr = NUM_HEADS * HEAD_DIM
    block, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    stream = row // NUM_PASSES
    told = numbers + stream * NUMBERS
    slot, start = tl.load(told), tl.load(told + 1).to(tl.int32)
    num_pinned, phase = tl.load(told + 2).to(tl.int32), tl.load(told + 3).to(tl.int32)
    limit = tl.load(told + 4).to(tl.int32)
    is_slot = slot < num_slots
    frames = joined + row.to(tl.int64) * num_frames * (3 * WIDTH) + head * HEAD_DIM
    turns = stream * num_frames
    number = tl.arange(0, HEAD_DIM)

    frame = block * QUERIES + tl.arange(0, QUERIES)
    is_query = frame < num_frames
    queries = _turned(
        frames, cos, sin, turns, frame, is_query, head == 0, 3 * WIDTH, HEAD_DIM
    )  # fmt: skip
    end = _chunk_end(start + frame, phase, limit, CHUNK)

    # Of the ring, frames are kept that are later than `oldest`, counted from the recording's end.
    last = start - 1 - num_pinned
    oldest = last + num_frames - RING
    num_kept = tl.where(last < 0, tl.maximum(start, 0), num_pinned + tl.minimum(last + 1, RING))
    num_kept = tl.where(is_slot, num_kept, 0)
    memory = context + tl.minimum(slot, num_slots - 1) * slot_size
    memory += (row % NUM_PASSES).to(tl.int64) * pass_size + head * HEAD_DIM
    highest = tl.full((QUERIES,), -1e30, tl.float32)
    weight_sum = tl.zeros((QUERIES,), tl.float32)
    attended = tl.zeros((QUERIES, HEAD_DIM), tl.float32)
    for first in range(0, num_kept, KEYS):
        place = first + tl.arange(0, KEYS)
        offset = place - num_pinned
        held = last - (last - offset + RING) % RING
        is_kept = (place < num_kept) & ((offset < 0) | (held > oldest))
        kept_key = memory + place.to(tl.int64)[:, None] * (2 * WIDTH) + number[None, :]
        keys = tl.load(kept_key, mask=is_kept[:, None], other=0.0).to(queries.dtype)
        values = tl.load(kept_key + WIDTH, mask=is_kept[:, None], other=0.0).to(queries.dtype)
        highest, weight_sum, attended = _added(
            queries, keys, values, is_kept[None, :], scale, highest, weight_sum, attended
        )
    for first in range(0, num_frames, KEYS):
        other = first + tl.arange(0, KEYS)
        there = (other < num_frames) & (start + other >= 0)
        keys = _turned(
            frames + WIDTH, cos, sin, turns, other, there, head == 0, 3 * WIDTH, HEAD_DIM
        )  # fmt: skip
        new_value = frames + 2 * WIDTH + other.to(tl.int64)[:, None] * (3 * WIDTH)
        values = tl.load(new_value + number[None, :], mask=there[:, None], other=0.0)
        is_visible = there[None, :] & ((start + other)[None, :] < end[:, None])
        highest, weight_sum, attended = _added(
            queries, keys, values, is_visible, scale, highest, weight_sum, attended
        )
        place = start + other
        place = tl.where(place < num_pinned, place, num_pinned + (place - num_pinned) % RING)
        _keep(memory, place, keys, values, there & is_slot & (block == 0), WIDTH)
    places = (row.to(tl.int64) * num_frames + frame)[:, None] * WIDTH + head * HEAD_DIM
    made = narrowed(attended / weight_sum[:, None], result.dtype.element_ty)
    tl.store(result + places + number[None, :], made, mask=is_query[:, None])
