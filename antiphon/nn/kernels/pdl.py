"""Kernels that start before the previous one has ended (programmatic dependent launch).

Such a kernel waits for the previous kernel to end before it accesses memory that other kernels
write or read. This saves the time between the end of one kernel and the start of the next.

A kernel lets its successor start only after that wait, so that at most two are on the device at the
same time. A chain of waiting kernels is not safe: one that starts while a buffer's earlier content
is still being read can find that content in its multiprocessor's L1 cache after the buffer has been
rewritten, and waiting does not clear that cache (seen on an H200: one wrong frame of a codec in
9,000).
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda

_MIN_CAPABILITY = (9, 0)


def overlaps(tensor: Tensor) -> bool:
    """Return whether the device of a tensor can start a kernel early."""
    return tensor.is_cuda and _overlaps(tensor.device)


@cache
def _overlaps(device: torch.device) -> bool:
    is_nvidia = torch.version.cuda is not None
    return is_nvidia and torch.cuda.get_device_capability(device) >= _MIN_CAPABILITY


@triton.jit
def await_others(OVERLAPS: tl.constexpr) -> None:
    """Wait for the previous kernel, then release the next one; constants may be loaded before."""
    if OVERLAPS:
        cuda.gdc_wait()
        cuda.gdc_launch_dependents()


@triton.jit
def prefetch_rows(rows, WIDTH: tl.constexpr) -> None:
    """Prefetch rows of memory, pointers ``[num_rows, 1]``, into the L2 cache.

    All writes meet in that cache, so the rows may be prefetched before they have been written.
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
