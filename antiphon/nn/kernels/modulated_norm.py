"""AdaLN conditioned on the diffusion timestep (DiT, arXiv 2212.09748).

A branch is gated and added, then the sum normed, scaled and shifted, in one launch between two
matrix products.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.snake import narrowed


@dataclass(frozen=True, slots=True)
class Branch:
    """Branch added to the states before the norm.

    Attributes:
        values: ``[num_rows, width]``, in the type of the products.
        gate: factors of the values, f32 ``[width]``.
    """

    values: Tensor
    gate: Tensor


def add_modulated_norm(
    states: Tensor,
    branch: Branch | None,
    scale: Tensor,
    shift: Tensor,
    epsilon: float,
    dtype: torch.dtype,
) -> Tensor:
    """Add a branch to the states, in place, and return ``norm(states) * (1 + scale) + shift``.

    Args:
        states: f32 ``[num_rows, width]``.
        branch: branch added to the states; ``None``: only the norm is computed.
        scale: f32 ``[width]``.
        shift: f32 ``[width]``.
        epsilon: addend of the variance.
        dtype: type of the result, ``[num_rows, width]``; float16 is clamped to its largest number.
    """
    num_rows, width = states.shape
    assert states.is_contiguous()
    normed = states.new_empty(states.shape, dtype=dtype)
    values, gate = (None, None) if branch is None else (branch.values, branch.gate)
    assert values is None or values.is_contiguous()
    block = triton.next_power_of_2(width)
    is_early = overlaps(states)
    _add_modulated_norm[(num_rows,)](
        states, values, gate, scale, shift, normed, width, epsilon,
        HAS_BRANCH=values is not None, BLOCK=block, PDL=is_early,
        num_warps=max(1, min(8, block // 256)), launch_pdl=is_early,
    )  # fmt: skip
    return normed


@triton.jit
def _add_modulated_norm(
    states, values, gate, scale, shift, normed, width, epsilon,
    HAS_BRANCH: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    factor = 1.0 + tl.load(scale + columns, mask=inside, other=0.0)
    addend = tl.load(shift + columns, mask=inside, other=0.0)
    await_others(PDL)
    places = tl.program_id(0).to(tl.int64) * width + columns
    value = tl.load(states + places, mask=inside, other=0.0)
    if HAS_BRANCH:
        part = tl.load(values + places, mask=inside, other=0.0).to(tl.float32)
        value += part * tl.load(gate + columns, mask=inside, other=0.0)
        tl.store(states + places, value, mask=inside)
    mean = tl.sum(value, axis=0) / width
    centered = tl.where(inside, value - mean, 0.0)
    variance = tl.sum(centered * centered, axis=0) / width
    result = centered * tl.rsqrt(variance + epsilon) * factor + addend
    tl.store(normed + places, narrowed(result, normed.dtype.element_ty), mask=inside)
