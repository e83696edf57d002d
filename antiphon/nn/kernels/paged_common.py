"""What kernels of attention over paged keys and values share.

Position p of a slot is at offset ``p % block_positions`` of the block that the slot's table names
at ``p // block_positions``. Positions are attended to in runs of a fixed size, and nothing beyond
a token's own position is read into its result, so that a result depends on its own slot alone: how
much is launched follows from the longest one and changes nothing.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.qkv import HeadShape

MIN_DOT = 16
"""Rows that a matrix instruction wants."""

_RUN_POSITIONS = 64


@dataclass(frozen=True, slots=True)
class Projected:
    """A layer's product, and what makes heads of it.

    Attributes:
        joined: ``[num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]``, contiguous.
        shape: of the heads.
        norms: weights of the norms of queries and keys, ``None`` without, and their epsilon.
        rotation: cosines and sines, ``[num_rotations, head_dim]``; token ``t`` takes row
            ``t % num_rotations``.
    """

    joined: Tensor
    shape: HeadShape
    norms: tuple[Tensor | None, Tensor | None, float]
    rotation: tuple[Tensor, Tensor]

    @property
    def arguments(self) -> tuple[Tensor | float | None, ...]:
        """What every kernel is given first."""
        return self.joined, *self.norms, *self.rotation, len(self.rotation[0])


def run_positions(table: Tensor, block_positions: int) -> int:
    """Return how many positions are looked at together; the same for all passes over a cache."""
    capacity: int = table.shape[1] * block_positions
    return min(_RUN_POSITIONS, max(MIN_DOT, 1 << (capacity - 1).bit_length()))


@triton.jit
def rounded(value, kind):
    """Round to a type and go on in f32, as PyTorch does between its operations."""
    return value.to(kind).to(tl.float32)


@triton.jit
def normed_and_rotated(heads, weight, cosines, sines, turns, there, epsilon, HALF: tl.constexpr):
    """Norm and rotate heads; no ``weight``, no norm.

    ``heads`` are pointers to them, ``turns`` rows of the rotation; zeros where not ``there``.
    """
    columns = tl.arange(0, 2 * HALF)[None, :]
    partners = tl.where(columns < HALF, columns + HALF, columns - HALF)
    there = there[:, None]
    own = tl.load(heads[:, None] + columns, mask=there, other=0.0)
    kind = own.dtype
    own = own.to(tl.float32)
    partner = tl.load(heads[:, None] + partners, mask=there, other=0.0).to(tl.float32)
    if weight is not None:
        scale = tl.rsqrt(tl.sum(own * own, axis=1) / (2 * HALF) + epsilon)[:, None]
        own = rounded(own * scale, kind) * tl.load(weight + columns).to(tl.float32)
        partner = rounded(partner * scale, kind) * tl.load(weight + partners).to(tl.float32)
    partner = tl.where(columns < HALF, -partner, partner)
    angle = turns[:, None] * 2 * HALF + columns
    cosine = tl.load(cosines + angle, mask=there, other=0.0).to(tl.float32)
    sine = tl.load(sines + angle, mask=there, other=0.0).to(tl.float32)
    turned = rounded(rounded(own, kind) * cosine, kind)
    return (turned + rounded(rounded(partner, kind) * sine, kind)).to(kind)


@triton.jit
def offsets(
    blocks, positions, there,
    NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_POSITIONS: tl.constexpr,
):  # fmt: skip
    """Return where the keys of a slot's positions begin, given where its blocks are named."""
    block = tl.load(blocks + positions // BLOCK_POSITIONS, mask=there, other=0).to(tl.int64)
    return (block * BLOCK_POSITIONS + positions % BLOCK_POSITIONS) * NUM_KV_HEADS * HEAD_DIM


@triton.jit
def take_in(query, key, value, visible, largest, total, sums):
    """Go on with a softmax: largest score, sum of weights and weighted sum of values so far."""
    scale: tl.constexpr = query.shape[1] ** -0.5
    score = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
    score = tl.where(visible, score, -float("inf"))
    newest = tl.maximum(largest, tl.max(score, axis=1))
    shrink = tl.exp(largest - newest)
    weight = tl.exp(score - newest[:, None])
    total = total * shrink + tl.sum(weight, axis=1)
    sums = sums * shrink[:, None]
    sums += tl.dot(weight.to(value.dtype), value, input_precision="ieee")
    return newest, total, sums


@triton.jit
def attend_kept(
    query, limits, keys, kind_stride, blocks, start, end,
    NUM_KV_HEADS: tl.constexpr, RUN: tl.constexpr, BLOCK_POSITIONS: tl.constexpr,
):  # fmt: skip
    """Begin a softmax with positions ``start`` to ``end - 1``, each row's up to its limit."""
    ROWS: tl.constexpr = query.shape[0]
    HEAD_DIM: tl.constexpr = query.shape[1]
    largest = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, HEAD_DIM], tl.float32)
    columns = tl.arange(0, HEAD_DIM)[None, :]
    for run in range(start, end, RUN):
        at = run + tl.arange(0, RUN)
        there = at < end
        places = keys + offsets(blocks, at, there, NUM_KV_HEADS, HEAD_DIM, BLOCK_POSITIONS)
        places = places[:, None] + columns
        key = tl.load(places, mask=there[:, None], other=0.0)
        value = tl.load(places + kind_stride, mask=there[:, None], other=0.0)
        visible = there[None, :] & (at[None, :] <= limits[:, None])
        largest, total, sums = take_in(query, key, value, visible, largest, total, sums)
    return largest, total, sums
