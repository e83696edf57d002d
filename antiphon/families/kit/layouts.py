"""Names and shapes of layers' tensors, for checkpoint layouts, and the arithmetic of a frame.

The order of a layout is that of the tensors in files of random weights.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from antiphon.contracts.family import Product
from antiphon.nn.layer_configs import EcapaConfig, TransformerConfig
from antiphon.nn.safetensors_index import Shape

Layout: TypeAlias = dict[str, Shape]
HALF_BYTES, FLOAT_BYTES = 2, 4
"""Bytes of a number in bfloat16 or float16, and in float32."""


def under(prefix: str, layout: Mapping[str, Shape]) -> Layout:
    """Return a layout whose names begin with a prefix and a dot."""
    return {f"{prefix}.{name}": shape for name, shape in layout.items()}


def repeated(prefix: str, count: int, layer: Mapping[str, Shape]) -> Layout:
    """Return the layout of ``count`` equal layers, numbered from 0."""
    return {
        f"{prefix}.{index}.{name}": shape for index in range(count) for name, shape in layer.items()
    }


def affine(name: str, *shape: int, num_outputs: int | None = None) -> Layout:
    """Return a weight and its bias.

    Args:
        name: prefix of both.
        shape: shape of the weight: outputs and inputs of a linear layer, plus the kernel size of a
            convolution.
        num_outputs: size of the bias; ``None``: the weight's first dimension.
    """
    return {f"{name}.weight": shape, f"{name}.bias": (num_outputs or shape[0],)}


def snake(name: str, size: int) -> Layout:
    """Return the parameters of a Snake activation with its own magnitude."""
    return {f"{name}.alpha": (size,), f"{name}.beta": (size,)}


def convnext(width: int) -> Layout:
    layout: Layout = {"gamma": (width,)}
    layout |= affine("dwconv.conv", width, 1, 7) | affine("norm", width)
    return layout | affine("pwconv1", 4 * width, width) | affine("pwconv2", width, 4 * width)


def attention(sizes: TransformerConfig, biased: str = "") -> Layout:
    """Return the projections of attention; those whose letters are in ``biased`` have a bias."""
    width = sizes.hidden_size
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    outputs = {"q": (queries, width), "k": (keys, width), "v": (keys, width), "o": (width, queries)}
    return _projections("self_attn", outputs, biased)


def gated_mlp(sizes: TransformerConfig, *, has_bias: bool = False) -> Layout:
    """Return the projections of a gated feed-forward network."""
    width, inner = sizes.hidden_size, sizes.intermediate_size
    outputs = {"gate": (inner, width), "up": (inner, width), "down": (width, inner)}
    return _projections("mlp", outputs, outputs if has_bias else ())


def layer_norms(sizes: TransformerConfig) -> Layout:
    """Return the weights of the norms before attention and before the feed-forward network."""
    names = ("input_layernorm.weight", "post_attention_layernorm.weight")
    return dict.fromkeys(names, (sizes.hidden_size,))


def head_norms(sizes: TransformerConfig) -> Layout:
    """Return the weights of the norms of queries and keys."""
    return {f"self_attn.{part}_norm.weight": (sizes.head_dim,) for part in "qk"}


def transformer(prefix: str, sizes: TransformerConfig, biased: str = "", *more: Layout) -> Layout:
    """Return layers with gated feed-forward networks, each with ``more``, and the last norm."""
    layer = layer_norms(sizes) | attention(sizes, biased) | gated_mlp(sizes)
    for part in more:
        layer |= part
    norm: Layout = {"norm.weight": (sizes.hidden_size,)}
    return under(prefix, norm | repeated("layers", sizes.num_layers, layer))


def _projections(
    name: str, outputs: Mapping[str, Shape], biased: str | Mapping[str, Shape] | tuple[()]
) -> Layout:
    layout: Layout = {}
    for part, shape in outputs.items():
        layout[f"{name}.{part}_proj.weight"] = shape
        if part in biased:
            layout[f"{name}.{part}_proj.bias"] = shape[:1]
    return layout


def ecapa(config: EcapaConfig) -> Layout:
    first, *middle, pooled = config.channels
    sizes, listened = config.kernel_sizes, config.attention_channels
    layout = affine("blocks.0.conv", first, config.mel_dim, sizes[0])
    for index, width in enumerate(middle, 1):
        block = f"blocks.{index}"
        layout |= affine(f"{block}.tdnn1.conv", width, config.channels[index - 1], 1)
        part = width // config.res2net_scale
        for scale in range(config.res2net_scale - 1):
            name = f"{block}.res2net_block.blocks.{scale}.conv"
            layout |= affine(name, part, part, sizes[index])
        layout |= affine(f"{block}.tdnn2.conv", width, width, 1)
        layout |= affine(f"{block}.se_block.conv1", config.se_channels, width, 1)
        layout |= affine(f"{block}.se_block.conv2", width, config.se_channels, 1)
    layout |= affine("mfa.conv", pooled, sum(middle), sizes[-1])
    layout |= affine("asp.tdnn.conv", listened, 3 * pooled, 1)
    layout |= affine("asp.conv", pooled, listened, 1)
    return layout | affine("fc", config.embedding_size, 2 * pooled, 1)


def num_values(shapes: Iterable[Shape]) -> int:
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
