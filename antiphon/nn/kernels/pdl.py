"""Kernels that begin before the one before them has ended (programmatic dependent launch).

Such a kernel waits, before it touches what others make or read, until all before it have ended;
what is gained is the time from one kernel's end to the next one's begin.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda

_MIN_CAPABILITY = (9, 0)


def overlaps(tensor: Tensor) -> bool:
    """Return whether the device of a tensor can begin a kernel early."""
    return tensor.is_cuda and _overlaps(tensor.device)


@cache
def _overlaps(device: torch.device) -> bool:
    is_nvidia = torch.version.cuda is not None
    return is_nvidia and torch.cuda.get_device_capability(device) >= _MIN_CAPABILITY


@triton.jit
def await_others(OVERLAPS: tl.constexpr) -> None:
    """Let the next kernel begin, and wait for the ones before: the first thing a kernel does."""
    if OVERLAPS:
        cuda.gdc_launch_dependents()
        cuda.gdc_wait()


@triton.jit
def prefetch_rows(rows, WIDTH: tl.constexpr) -> None:
    """Have rows of memory, pointers ``[num_rows, 1]``, brought into the cache of all programs.

    It is where their writes meet, so that this may be done before what is there has been written.
    """
    NUM_LINES: tl.constexpr = (WIDTH * rows.dtype.element_ty.primitive_bitwidth + 1023) // 1024
    lines = rows + tl.arange(0, NUM_LINES)[None, :] * (WIDTH // NUM_LINES)
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [lines.to(tl.int64)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
