"""Inputs that are sums of two embeddings, either of which may be missing, in one launch."""

import triton
import triton.language as tl
from torch import Tensor


def embed_pairs(ids: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
    """Look up and add.

    Args:
        ids: of both tables, int64 ``[2, num_positions]``; negative ones stand for zeros.
        tables: ``[num_ids, width]`` each, contiguous and of one type.

    Returns:
        ``[num_positions, width]``, rounded once.
    """
    first, second = tables
    num_positions, width = ids.shape[1], first.shape[1]
    states = first.new_empty(num_positions, width)
    _embed_pairs[(num_positions,)](
        ids, first, second, states, num_positions, width,
        BLOCK=triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip
    return states


@triton.jit
def _embed_pairs(ids, first, second, states, num_positions, width, BLOCK: tl.constexpr):
    position = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    is_one = columns < width
    id_of_first, id_of_second = tl.load(ids + position), tl.load(ids + num_positions + position)
    from_first = first + id_of_first * width + columns
    from_second = second + id_of_second * width + columns
    one = tl.load(from_first, mask=is_one & (id_of_first >= 0), other=0.0).to(tl.float32)
    other = tl.load(from_second, mask=is_one & (id_of_second >= 0), other=0.0).to(tl.float32)
    tl.store(states + position * width + columns, one + other, mask=is_one)
