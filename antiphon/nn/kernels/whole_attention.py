"""Bidirectional attention among a few positions of a row, without a cache.

A program computes a head of a row: it norms and rotates a layer's product, and attends. So a row's
result does not depend on the number of rows.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.paged_common import MIN_DOT, Projected, normed_and_rotated
from antiphon.nn.kernels.pdl import await_others, overlaps

MIN_HEAD_DIM = MIN_DOT
MAX_POSITIONS = 64
"""Most positions of a row that fit into a program."""


def attend_whole(new: Projected, num_positions: int) -> Tensor:
    """Attend from each position to all of its row.

    Args:
        new: rows of ``num_positions`` tokens, concatenated.
        num_positions: positions per row, at most `MAX_POSITIONS`.

    Returns:
        ``[num_tokens, num_heads * head_dim]``.
    """
    assert num_positions <= MAX_POSITIONS
    num_tokens, shape = len(new.joined), new.shape
    result = torch.empty(
        (num_tokens, shape.num_heads * shape.head_dim),
        dtype=new.joined.dtype,
        device=new.joined.device,
    )
    is_early = overlaps(new.joined)
    _attend_whole[(num_tokens // num_positions, shape.num_heads)](
        *new.arguments, result, num_positions,
        NUM_HEADS=shape.num_heads, NUM_KV_HEADS=shape.num_kv_heads, HALF=shape.head_dim // 2,
        POSITIONS=max(MIN_DOT, triton.next_power_of_2(num_positions)), PDL=is_early,
        num_warps=2, launch_pdl=is_early,
    )  # fmt: skip
    return result


@triton.jit
def _attend_whole(
    joined, query_weight, key_weight, epsilon, cosines, sines, num_rotations, result,
    num_positions,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HALF: tl.constexpr,
    POSITIONS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    HEAD_DIM: tl.constexpr = 2 * HALF
    WIDTH: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    kv_head = head // (NUM_HEADS // NUM_KV_HEADS)
    position = tl.arange(0, POSITIONS)
    there = position < num_positions
    turns = position % num_rotations
    tokens = row * num_positions + position
    starts = joined + tokens * WIDTH
    keys = starts + (NUM_HEADS + kv_head) * HEAD_DIM
    query = normed_and_rotated(
        starts + head * HEAD_DIM, query_weight, cosines, sines, turns, there, epsilon, HALF
    )
    key = normed_and_rotated(keys, key_weight, cosines, sines, turns, there, epsilon, HALF)
    columns = tl.arange(0, HEAD_DIM)[None, :]
    values = keys[:, None] + NUM_KV_HEADS * HEAD_DIM + columns
    value = tl.load(values, mask=there[:, None], other=0.0)
    score = tl.dot(query, tl.trans(key), input_precision="ieee") * (HEAD_DIM**-0.5)
    score = tl.where(there[None, :], score, -float("inf"))
    weight = tl.exp(score - tl.max(score, axis=1)[:, None])
    total = tl.sum(weight, axis=1)
    sums = tl.dot(weight.to(value.dtype), value, input_precision="ieee")
    places = result + (tokens[:, None] * NUM_HEADS + head) * HEAD_DIM + columns
    tl.store(places, sums / total[:, None], mask=there[:, None])
