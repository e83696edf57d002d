"""Norm and gate between a layer's matrix products, rounded like PyTorch."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps

_GATE_BLOCK = 1024


def rms_norm(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Norm the last dimension; see `antiphon.nn.layers.RMSNorm`."""
    return _norm(states, None, weight, epsilon)[1]


def add_rms_norm(
    states: Tensor, branch: Tensor, weight: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Return ``states + branch``, and the normed sum."""
    return _norm(states, branch.contiguous(), weight, epsilon)


def silu_product(gate_up: Tensor) -> Tensor:
    """Return ``silu(gate) * up`` for ``[..., 2 * width]``, gate first."""
    gate_up = gate_up.contiguous()
    width = gate_up.shape[-1] // 2
    result = gate_up.new_empty((*gate_up.shape[:-1], width))
    grid = (result.numel() // width, triton.cdiv(width, _GATE_BLOCK))
    _silu_product[grid](
        gate_up, result, width, BLOCK=_GATE_BLOCK, PDL=overlaps(gate_up),
        num_warps=4, launch_pdl=overlaps(gate_up),
    )  # fmt: skip
    return result


def _norm(
    states: Tensor, branch: Tensor | None, weight: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    states = states.contiguous()
    width = states.shape[-1]
    normed = torch.empty_like(states)
    sums = states if branch is None else torch.empty_like(states)
    block = triton.next_power_of_2(width)
    _add_rms_norm[(states.numel() // width,)](
        states, branch, weight, sums, normed, width, epsilon,
        NUM_WEIGHTS=weight.numel() // width,
        HAS_BRANCH=branch is not None, BLOCK=block, PDL=overlaps(states),
        num_warps=max(1, min(8, block // 256)), launch_pdl=overlaps(states),
    )  # fmt: skip
    return sums, normed


@triton.jit
def _add_rms_norm(
    states, branch, weight, sums, normed, width, epsilon,
    NUM_WEIGHTS: tl.constexpr, HAS_BRANCH: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    weight += tl.program_id(0) % NUM_WEIGHTS * width  # heads may have weights of their own
    scale = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    await_others(PDL)
    places = tl.program_id(0).to(tl.int64) * width + columns
    value = tl.load(states + places, mask=inside, other=0.0)
    if HAS_BRANCH:
        addend = tl.load(branch + places, mask=inside, other=0.0)
        value = (value.to(tl.float32) + addend.to(tl.float32)).to(value.dtype)
        tl.store(sums + places, value, mask=inside)
    wide = value.to(tl.float32)
    wide = wide * tl.rsqrt(tl.sum(wide * wide, axis=0) / width + epsilon)
    tl.store(normed + places, scale * wide.to(value.dtype).to(tl.float32), mask=inside)


@triton.jit
def _silu_product(gate_up, result, width, BLOCK: tl.constexpr, PDL: tl.constexpr):
    await_others(PDL)
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    narrow = tl.load(gate_up + row * 2 * width + columns, mask=inside, other=0.0)
    up = tl.load(gate_up + (row * 2 + 1) * width + columns, mask=inside, other=0.0)
    gate = narrow.to(tl.float32)
    gate = (gate / (1.0 + tl.exp(-gate))).to(narrow.dtype).to(tl.float32)
    tl.store(result + row * width + columns, gate * up.to(tl.float32), mask=inside)
