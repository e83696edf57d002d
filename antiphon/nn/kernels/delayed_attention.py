"""Attention of layers with look-ahead to keys and values in rings of slots, pass by pass.

A layer's output is delayed by its look-ahead. One program computes a head of a row: it rotates new
positions, writes keys, values, queries and states into the rings, and attends from the positions
that are due. Keys are always read in the ring's order, then those of the pass, so a row depends
only on its own passes.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.split import parts_of

_KEYS = 64  # past keys per iteration
_MIN_SIDE = 16  # minimum side of a matrix instruction
_ROUNDS = tl.constexpr(4096)  # of a ring, more than any stream starts before position 0


@dataclass(frozen=True, slots=True)
class DelayedRows:
    """Rows of a pass: ``num_positions`` positions per row, concatenated.

    Attributes:
        places: slot, position of the first state, and number of known positions of the stream,
            int64 ``[num_rows, 3]``. Positions may be before 0 or after the end.
        rotation: rotation of all positions, float32 ``[num_rows * num_positions, head_dim]``:
            cosines of half a head, then sines.
        left: number of visible positions before a query's own.
        right: number of visible positions after a query's own.
    """

    places: Tensor
    rotation: Tensor
    num_positions: int
    left: int
    right: int


def attend_delayed(
    joined: Tensor,
    states: Tensor,
    kept: tuple[Tensor, Tensor],
    rows: DelayedRows,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Attend from positions that are earlier by ``right``, and store state for later passes.

    Args:
        joined: float32 ``[num_rows * num_positions, 3 * num_heads * head_dim]``: queries, keys,
            values, not rotated yet.
        states: input states of that product, float32 ``[num_rows * num_positions, num_heads *
            head_dim]``.
        kept: rings of keys and values, ``[num_slots, num_kept, 2, num_heads, head_dim]``, with room
            for ``left + right + num_positions``, and of rotated queries and states, ``[num_slots,
            right + num_positions, 2, num_heads * head_dim]``, of no positions if ``right`` is 0;
            updated in place.
        rows: rows of ``joined``.
        dtype: type of the attention output; ``None``: that of ``states``.

    Returns:
        The attention output, and the states of its positions, both shaped like ``states``.
    """
    ring, waiting = kept
    num_kept, _, num_heads, head_dim = ring.shape[1:]
    num_rows, num_positions = len(rows.places), rows.num_positions
    assert joined.is_contiguous()
    assert states.is_contiguous()
    assert num_kept >= rows.left + rows.right + num_positions
    assert rows.right == 0 or waiting.shape[1] >= rows.right + num_positions
    attended = torch.empty_like(states, dtype=dtype)
    delayed = torch.empty_like(states) if rows.right else states
    is_early = overlaps(joined)
    _attend_delayed[(num_rows, num_heads)](
        joined, states, ring, waiting, rows.places, rows.rotation, attended, delayed,
        ring.stride(0), waiting.stride(0), head_dim**-0.5, num_positions,
        NUM_HEADS=num_heads, HEAD_DIM=head_dim, NUM_KEPT=num_kept,
        NUM_WAITING=max(1, waiting.shape[1]), LEFT=rows.left, RIGHT=rows.right,
        POSITIONS=max(_MIN_SIDE, triton.next_power_of_2(num_positions)),
        CHANNELS=max(_MIN_SIDE, triton.next_power_of_2(head_dim)), KEYS=_KEYS,
        OVERLAPS=is_early, launch_pdl=is_early, num_warps=4,
    )  # fmt: skip
    return attended, delayed


@triton.jit
def _rotated(
    start, rotation, position, mask,
    HEAD_DIM: tl.constexpr, CHANNELS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Load heads of positions, ``[N, CHANNELS]``, and rotate them; zeros outside ``mask``."""
    HALF: tl.constexpr = HEAD_DIM // 2
    number = tl.arange(0, CHANNELS)
    heads = start + position[:, None] * STEP
    value = tl.load(heads + number[None, :], mask=mask, other=0.0)
    other = tl.load(heads + ((number + HALF) % HEAD_DIM)[None, :], mask=mask, other=0.0)
    other = tl.where((number < HALF)[None, :], -other, other)
    turns = rotation + position[:, None] * HEAD_DIM + (number % HALF)[None, :]
    cosine = tl.load(turns, mask=mask, other=1.0)
    sine = tl.load(turns + HALF, mask=mask, other=0.0)
    return value * cosine + other * sine


@triton.jit
def _added(queries, keys, values, is_visible, scale, highest, weight_sum, attended):
    """Add half-precision keys and values to a running softmax."""
    high, low = parts_of(queries)
    zero = tl.zeros((queries.shape[0], keys.shape[0]), tl.float32)
    scores = tl.dot(high, tl.trans(keys), tl.dot(low, tl.trans(keys), zero)) * scale
    scores = tl.where(is_visible, scores, -1e30)
    above = tl.maximum(highest, tl.max(scores, axis=1))
    weights = tl.where(is_visible, tl.exp(scores - above[:, None]), 0.0)
    before = tl.exp(highest - above)
    weight_sum = weight_sum * before + tl.sum(weights, axis=1)
    high, low = parts_of(weights)
    attended = tl.dot(high, values, tl.dot(low, values, attended * before[:, None]))
    return above, weight_sum, attended


@triton.jit
def _past(
    queries, ring, position, start, end, scale,
    NUM_KEPT: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, CHANNELS: tl.constexpr,
    HEAD_DIM: tl.constexpr, STEP: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Return the running softmax over the positions before a pass."""
    channel = tl.arange(0, CHANNELS)[None, :]
    highest = tl.full((queries.shape[0],), -1e30, tl.float32)
    weight_sum = tl.zeros((queries.shape[0],), tl.float32)
    attended = tl.zeros(queries.shape, tl.float32)
    newest = start - 1 + _ROUNDS * NUM_KEPT
    # In its first turn a ring holds positions from 0 on. One before 0 that is due is there too, for
    # itself; without look-ahead all of those are in the pass.
    num_held = NUM_KEPT if RIGHT > 0 else tl.minimum(start, NUM_KEPT).to(tl.int32)
    for first_key in tl.range(0, num_held, KEYS, num_stages=2):
        key = first_key + tl.arange(0, KEYS)
        held = start - 1 - (newest - key) % NUM_KEPT
        # Older positions may be being overwritten.
        is_key = (key < NUM_KEPT) & (held >= start - RIGHT - LEFT)
        is_visible = _is_visible(held, position, end, LEFT, RIGHT) & is_key[None, :]
        spots = ring + key[:, None] * STEP + channel
        # Memory outside the stream is undefined: times a weight of 0 it could give NaN.
        mask = (is_key & (held >= 0) & (held < end))[:, None] & (channel < HEAD_DIM)
        keys = tl.load(spots, mask=mask, other=0.0).to(tl.float16)
        values = tl.load(spots + STEP // 2, mask=mask, other=0.0).to(tl.float16)
        highest, weight_sum, attended = _added(
            queries, keys, values, is_visible, scale, highest, weight_sum, attended
        )
    return highest, weight_sum, attended


@triton.jit
def _is_visible(held, position, end, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    """Return the positions visible to others; one outside the stream sees itself, to avoid NaN."""
    distance = held[None, :] - position[:, None]
    is_near = (distance >= -LEFT) & (distance <= RIGHT)
    return is_near & (((held >= 0) & (held < end))[None, :] | (distance == 0))


@triton.jit
def _whose_turn_it_is(
    joined, states, rotation, waiting, delayed, queries, start, inside, number,
    HEAD_DIM: tl.constexpr, CHANNELS: tl.constexpr, WIDTH: tl.constexpr,
    NUM_WAITING: tl.constexpr, RIGHT: tl.constexpr,
):  # fmt: skip
    """Enqueue new queries; return those that are due, from the ring or the start of the pass.

    Their states become the residual input of the layer.
    """
    at = number[:, None] * WIDTH + tl.arange(0, CHANNELS)[None, :]
    spots = _spots(waiting, start + number, NUM_WAITING, WIDTH, CHANNELS)
    tl.store(spots, queries, mask=inside)
    tl.store(spots + WIDTH, tl.load(states + at, mask=inside, other=0.0), mask=inside)
    earlier = number - RIGHT
    has_waited, is_new = inside & (earlier < 0)[:, None], inside & (earlier >= 0)[:, None]
    spots = _spots(waiting, start + earlier, NUM_WAITING, WIDTH, CHANNELS)
    turned = _rotated(joined, rotation, earlier, is_new, HEAD_DIM, CHANNELS, 3 * WIDTH)
    turned += tl.load(spots, mask=has_waited, other=0.0)
    value = tl.load(spots + WIDTH, mask=has_waited, other=0.0)
    value += tl.load(states + at - RIGHT * WIDTH, mask=is_new, other=0.0)
    tl.store(delayed + at, value, mask=inside)
    return turned


@triton.jit
def _spots(ring, positions, SIZE: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr):
    """Return pointers to the first of two heads of positions in a ring, ``[N, CHANNELS]``."""
    place = (positions + _ROUNDS * SIZE) % SIZE
    return ring + place[:, None] * 2 * WIDTH + tl.arange(0, CHANNELS)[None, :]


@triton.jit(do_not_specialize=["num_positions"])
def _attend_delayed(
    joined, states, ring, waiting, places, rotation, result, delayed, ring_size, waiting_size,
    scale, num_positions,
    NUM_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, NUM_KEPT: tl.constexpr,
    NUM_WAITING: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, POSITIONS: tl.constexpr,
    CHANNELS: tl.constexpr, KEYS: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    WIDTH: tl.constexpr = NUM_HEADS * HEAD_DIM
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot, start = tl.load(places + row * 3), tl.load(places + row * 3 + 1)
    end = tl.load(places + row * 3 + 2)
    number, channel = tl.arange(0, POSITIONS), tl.arange(0, CHANNELS)[None, :]
    is_there = number < num_positions
    inside = is_there[:, None] & (channel < HEAD_DIM)
    first, rotation = row * num_positions, rotation + row * num_positions * HEAD_DIM
    joined += first * 3 * WIDTH + head * HEAD_DIM
    here = first * WIDTH + head * HEAD_DIM
    ring += slot * ring_size + head * HEAD_DIM

    # New keys are stored in half precision, and used so in this pass too.
    keys = _rotated(joined + WIDTH, rotation, number, inside, HEAD_DIM, CHANNELS, 3 * WIDTH)
    keys = keys.to(tl.float16)
    values = joined + 2 * WIDTH + number[:, None] * 3 * WIDTH + channel
    values = tl.load(values, mask=inside, other=0.0).to(tl.float16)
    spots = _spots(ring, start + number, NUM_KEPT, WIDTH, CHANNELS)
    tl.store(spots, keys.to(ring.dtype.element_ty), mask=inside)
    tl.store(spots + WIDTH, values.to(ring.dtype.element_ty), mask=inside)

    queries = _rotated(joined, rotation, number, inside, HEAD_DIM, CHANNELS, 3 * WIDTH)
    if RIGHT > 0:
        queries = _whose_turn_it_is(
            joined, states + here, rotation, waiting + slot * waiting_size + head * HEAD_DIM,
            delayed + here, queries, start, inside, number,
            HEAD_DIM, CHANNELS, WIDTH, NUM_WAITING, RIGHT,
        )  # fmt: skip
    position = start - RIGHT + number
    highest, weight_sum, attended = _past(
        queries, ring, position, start, end, scale,
        NUM_KEPT, LEFT, RIGHT, CHANNELS, HEAD_DIM, 2 * WIDTH, KEYS,
    )  # fmt: skip
    is_visible = _is_visible(start + number, position, end, LEFT, RIGHT) & is_there[None, :]
    highest, weight_sum, attended = _added(
        queries, keys, values, is_visible, scale, highest, weight_sum, attended
    )
    spots = result + here + number[:, None] * WIDTH + channel
    tl.store(spots, attended / weight_sum[:, None], mask=inside)
