"""Memory fence that Triton before 3.7 omits in matrix products on Hopper GPUs.

Tiles are copied into shared memory asynchronously (`cp.async`), and `wgmma` reads them through
another path of the memory system, the async proxy. Without a fence between the two it can read
stale data: in one codec frame of 9,000 on an H200, with Triton 3.6. Triton 3.7 emits the fence at
the same place. See "Async proxy" in the PTX ISA's chapter on memory consistency.
"""

import re
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any

_FIRST_WITH_FENCE = (3, 7)
_PRODUCT = re.compile(r"^([ \t]*)wgmma\.fence\.sync\.aligned;", re.MULTILINE)
_FENCE = "fence.proxy.async.shared::cta;"


def with_fences(ptx: str) -> str:
    """Return a kernel in PTX with a proxy fence before each group of `wgmma` instructions."""
    return _PRODUCT.sub(rf"\1{_FENCE}\n\g<0>", ptx)


@cache
def ensure_fences() -> None:
    """Make Triton's compiler emit the fence in all kernels of this process, if it does not."""
    if _triton_version() >= _FIRST_WITH_FENCE:
        return
    from triton.backends.nvidia.compiler import CUDABackend

    compiler: Any = CUDABackend
    make_ptx, make_hash = compiler.make_ptx, compiler.hash

    def fenced_ptx(self: Any, *arguments: Any, **options: Any) -> str:
        return with_fences(make_ptx(self, *arguments, **options))

    @lru_cache
    def fenced_hash(self: Any) -> str:
        # Part of the key of Triton's cache on disk, which may hold kernels without fences.
        return f"{make_hash(self)}-proxy-fences"

    compiler.make_ptx, compiler.hash = fenced_ptx, fenced_hash


def _triton_version() -> tuple[int, ...]:
    return tuple(int(part) for part in version("triton").split(".")[:2])
