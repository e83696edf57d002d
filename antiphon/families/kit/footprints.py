"""Weights, traffic and arithmetic of a frame, by products and layouts."""

import math
from collections.abc import Callable, Iterable, Mapping

from antiphon.contracts.family import Product
from antiphon.nn.safetensors_index import Shape

HALF_BYTES, FLOAT_BYTES = 2, 4
"""Bytes of a number in bfloat16 or float16, and in float32."""


def num_values(shapes: Iterable[Shape]) -> int:
    """Return the number of values in tensors."""
    return sum(map(math.prod, shapes))


def read_bytes(products: Iterable[Product]) -> int:
    """Return the bytes of the matrices in 16 bits, one per product."""
    return HALF_BYTES * sum(product.num_weights for product in products)


def stream_flop(products: Iterable[Product]) -> int:
    """Return additions and multiplications of one stream's products."""
    return 2 * sum(product.num_weights * product.num_positions for product in products)


def columns_flop(layout: Mapping[str, Shape], num_columns: Callable[[str], int]) -> int:
    """Return additions and multiplications of a decoder for one frame.

    Args:
        layout: tensors of the decoder. A weight's value is multiplied once per column, and every
            upsampling increases the number of columns.
        num_columns: function from a weight's name to its columns per frame; 0 for other networks.
    """
    return 2 * sum(
        math.prod(shape) * num_columns(name)
        for name, shape in layout.items()
        if name.endswith("weight") and len(shape) > 1
    )
