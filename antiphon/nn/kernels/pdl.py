"""Kernels that begin before the one before them has ended (programmatic dependent launch).

Such a kernel waits for the kernel before it to end before it reads or writes anything that other
kernels write or read. The time between the end of one kernel and the start of the next is saved.

A kernel lets its successor begin only after that wait, so that at most two are on the device at the
same time. A chain of waiting kernels is not safe: one that begins while a buffer's earlier content
is still being read can find that content in its multiprocessor's first cache after the buffer has
been written anew, and waiting does not clear that cache (seen on an H200: one wrong frame of a
codec in 9,000).
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
    """Wait for the kernel before, then let the next one begin; after loads of constants alone."""
    if OVERLAPS:
        cuda.gdc_wait()
        cuda.gdc_launch_dependents()


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
