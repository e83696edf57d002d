"""Top-k and top-p before temperature, without sorting."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.sampling import order_of_kth


def nucleus(logits: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Filter logits as `antiphon.nn.sampler.keep_nucleus`.

    Args:
        logits: ``[num_rows, vocab_size]``, bfloat16 or f32.
        top_k: int64 ``[num_rows]``, of any stride.
        top_p: f32 ``[num_rows]``, of any stride.

    Returns:
        Logits of the same type, ``-inf`` where excluded.
    """
    logits = logits.contiguous()
    num_rows, vocab_size = logits.shape
    result = torch.empty_like(logits)
    block = triton.next_power_of_2(vocab_size)
    _nucleus[(num_rows,)](
        logits, top_k, top_p, result, vocab_size, top_k.stride(0), top_p.stride(0),
        BLOCK=block, BITS=32 if logits.dtype == torch.float32 else 16, PDL=overlaps(logits),
        num_warps=max(1, min(8, block // 256)), launch_pdl=overlaps(logits),
    )  # fmt: skip
    return result


@triton.jit
def _nucleus(
    logits, top_k, top_p, result, vocab_size, count_stride, share_stride,
    BLOCK: tl.constexpr, BITS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < vocab_size
    value = tl.load(logits + row * vocab_size + columns, mask=inside, other=-float("inf"))
    logit = value.to(tl.float32) + 0.0  # normalises negative zero
    num_kept = tl.load(top_k + row * count_stride).to(tl.int32)
    share = tl.load(top_p + row * share_stride)
    smallest, order = order_of_kth(logit, inside, num_kept, BITS)
    if share < 1.0:
        smallest = tl.maximum(smallest, _order_of_nucleus(logit, order, inside, share, BITS))
    is_kept = (order >= smallest) | (logit != logit)  # the draw detects NaN
    kept = tl.where(is_kept, logit, -float("inf")).to(value.dtype)
    tl.store(result + row * vocab_size + columns, kept, mask=inside)


@triton.jit
def _order_of_nucleus(logit, order, inside, share, BITS: tl.constexpr):
    """Find the order of the last token, in falling order, up to which all have this share or less.

    It is that of the most likely token, if its share is larger. Equal logits are kept together.
    """
    weight = tl.exp(logit - tl.max(logit, axis=0))
    weight = tl.where(inside, weight, 0.0)
    allowed = share * tl.sum(weight, axis=0)
    beyond = tl.zeros([], tl.uint32)  # the largest order that has more, with all above
    for step in tl.static_range(BITS // 2):
        unit = 1 << (BITS - 2 - 2 * step)
        base = beyond
        for steps in tl.static_range(1, 4):
            above = tl.sum(tl.where(order >= base + steps * unit, weight, 0.0), axis=0)
            beyond += (above > allowed).to(tl.uint32) * unit
    above = tl.sum(tl.where(order > beyond, weight, 0.0), axis=0)
    one = tl.max(tl.where(order == beyond, weight, 0.0), axis=0)
    has_room = above + one <= allowed
    smallest = tl.where(has_room, beyond, beyond + 1)
    return tl.minimum(smallest, tl.max(tl.where(inside, order, 0), axis=0))
