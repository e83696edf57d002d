"""Shared parts of the attention kernels over paged keys and values.

Position p of a slot is at offset ``p % block_positions`` of the block in the slot's table at ``p //
block_positions``. Positions are attended to in runs of a fixed size, and nothing after a token's
own position contributes to its result, so that a result depends only on its own slot: the launch
size follows from the longest one and changes nothing.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.attention import HeadShape
from antiphon.nn.kernels.shared_memory import TURING_BYTES, max_shared_bytes

MIN_DOT = 16
"""Minimum rows of a matrix instruction."""

_RUN_POSITIONS = 64


@dataclass(frozen=True, slots=True)
class Projected:
    """Joined query, key and value product of a layer, with its norms and rotation.

    Attributes:
        joined: ``[num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]``, contiguous.
        norms: weights of the query and key norms, ``None`` without, and their epsilon.
        rotation: cosines and sines, ``[num_rotations, head_dim]``; token ``t`` takes row
            ``t % num_rotations``.
    """

    joined: Tensor
    shape: HeadShape
    norms: tuple[Tensor | None, Tensor | None, float]
    rotation: tuple[Tensor, Tensor]

    @property
    def arguments(self) -> tuple[Tensor | float | None, ...]:
        """Leading arguments of every kernel."""
        return self.joined, *self.norms, *self.rotation, len(self.rotation[0])


def run_positions(table: Tensor, kept: Tensor) -> int:
    """Return the number of positions per run, the same for all passes over a cache."""
    capacity: int = table.shape[1] * kept.shape[2]
    is_tight = kept.itemsize > 2 and max_shared_bytes(kept) <= TURING_BYTES
    most = _RUN_POSITIONS // 2 if is_tight else _RUN_POSITIONS
    return min(most, max(MIN_DOT, 1 << (capacity - 1).bit_length()))


@triton.jit
def rounded(value, kind):
    """Round to a type and return f32, as PyTorch does between its operations."""
    return value.to(kind).to(tl.float32)


@triton.jit
def normed_and_rotated(heads, weight, cosines, sines, turns, there, epsilon, HALF: tl.constexpr):
    """Norm and rotate heads; without ``weight`` there is no norm.

    ``heads`` are pointers to them, ``turns`` rows of the rotation; zeros where ``there`` is false.
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
    """Return offsets of the keys of a slot's positions, given its table row."""
    block = tl.load(blocks + positions // BLOCK_POSITIONS, mask=there, other=0).to(tl.int64)
    return (block * BLOCK_POSITIONS + positions % BLOCK_POSITIONS) * NUM_KV_HEADS * HEAD_DIM


@triton.jit
def take_in(query, key, value, visible, largest, total, sums):
    """Update a softmax: largest score, sum of weights and weighted sum of values so far."""
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
    """Start a softmax with positions ``start`` to ``end - 1``, up to each row's limit."""
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
