"""Text of Hopper's matrix instruction, and maps of tensors that TMA copies, for all programs."""

import ctypes
from functools import lru_cache
from importlib import import_module

import torch

from antiphon.nn.cuda.compiler import checked

TensorMap = ctypes.c_ubyte * 128


def with_product(source: str, n: int, kind: str, *, is_transposed: bool = False) -> str:
    """Return a source text with the function ``product``: sums ``[64, n]`` += ``a`` times ``b``.

    Args:
        source: text with a line ``GENERATED_PRODUCT``.
        kind: type of the numbers, as ``"bf16"``.
        is_transposed: whether the numbers of an input are side by side in ``b``, not an output's.
    """
    size = n // 2
    sums = ", ".join(f"%{index}" for index in range(size))
    outputs = ", ".join(f'"+f"(acc[{index}])' for index in range(size))
    instruction = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{kind}.{kind}"
    product = f"""
DEVICE void product(float (&acc)[{size}], u64 a, u64 b, int adds) {{
    asm volatile("{{.reg .pred p;\\n setp.ne.b32 p, %{size + 2}, 0;\\n"
        "{instruction} {{{sums}}}, %{size}, %{size + 1}, p, 1, 1, 0, {int(is_transposed)};}}"
        : {outputs} : "l"(a), "l"(b), "r"(adds));
}}
"""
    return source.replace("GENERATED_PRODUCT", product)


@lru_cache(maxsize=4096)
def tensor_map(
    address: int, dtype: torch.dtype, *dimensions: tuple[int, int, int]
) -> "ctypes.Array[ctypes.c_ubyte]":
    """Return a tensor map of float16 or bfloat16 numbers, whose boxes are swizzled when copied.

    Args:
        dimensions: size, stride in bytes and size of a copied box of each dimension. The first
            one's numbers are side by side, 64 or 32 of a box.
    """
    driver = import_module("cuda.bindings.driver")
    (sizes, strides, box), rank = zip(*dimensions, strict=True), len(dimensions)
    kinds, swizzles = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
    kind = {
        torch.float16: kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        torch.bfloat16: kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    }[dtype]
    swizzle = {
        64: swizzles.CU_TENSOR_MAP_SWIZZLE_128B,
        32: swizzles.CU_TENSOR_MAP_SWIZZLE_64B,
    }[box[0]]
    (found,) = checked(
        driver.cuTensorMapEncodeTiled(
            kind,
            rank,
            address,
            [driver.cuuint64_t(size) for size in sizes],
            [driver.cuuint64_t(stride) for stride in strides[1:]],
            [driver.cuuint32_t(size) for size in box],
            [driver.cuuint32_t(1)] * rank,
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return TensorMap.from_buffer_copy(TensorMap.from_address(found.getPtr()))
