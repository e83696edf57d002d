"""Fused GPU kernels, each of which replaces several PyTorch operations by one launch.

The PyTorch operations in the calling modules are the reference, and the fallback without Triton.
"""

from importlib.util import find_spec

from torch import Tensor

from antiphon.nn.kernels.proxy_fence import ensure_fences

_HAS_TRITON = find_spec("triton") is not None


def run_on(tensor: Tensor) -> bool:
    if not (_HAS_TRITON and tensor.is_cuda):
        return False
    ensure_fences()
    return True
