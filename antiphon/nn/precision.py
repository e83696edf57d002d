"""Float32 precision: PyTorch lets GPU convolutions round to ten bits of mantissa (TF32)."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

_LOCK = RLock()


@contextmanager
def exact_float32() -> Iterator[None]:
    """Compute convolutions and matrix products of float32 in float32 (IEEE), not in TF32.

    PyTorch has one setting for the whole process: a lock is held meanwhile, and the setting is
    restored afterwards. Products of other types, and kernels in captured graphs, ignore it.
    """
    with _LOCK:
        convolutions = torch.backends.cudnn.allow_tf32
        products = torch.get_float32_matmul_precision()
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.backends.cudnn.allow_tf32 = convolutions
            torch.set_float32_matmul_precision(products)


@contextmanager
def tf32_products() -> Iterator[None]:
    """Compute matrix products of float32 in TF32, on tensor cores: ten bits of mantissa.

    Products of float16 accumulate in float32, across split parts too. Convolutions are unchanged.
    The settings are global to the process, as in `exact_float32`, inside which this may be used.
    """
    with _LOCK:
        products = torch.get_float32_matmul_precision()
        sums = torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
        torch.set_float32_matmul_precision("high")
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(products)
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = sums
