"""Fused GPU kernels: each does in one launch what lines of PyTorch beside its caller do in many.

The PyTorch lines are the reference, and what runs wherever Triton does not.
"""

from importlib.util import find_spec

from torch import Tensor

from antiphon.nn.kernels.proxy_fence import ensure_fences

_HAS_TRITON = find_spec("triton") is not None


def run_on(tensor: Tensor) -> bool:
    """Return whether the kernels work where this tensor is."""
    if not (_HAS_TRITON and tensor.is_cuda):
        return False
    ensure_fences()
    return True
