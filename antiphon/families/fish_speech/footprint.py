"""What a checkpoint takes of a GPU: memory, traffic and arithmetic, from its configuration.

The codec's sizes are those of the published one, since no file states them.
"""

import math
import re
from pathlib import Path

from antiphon.contracts.family import Product
from antiphon.contracts.inspection import Footprint
from antiphon.families.fish_speech.checkpoint import layout_of
from antiphon.families.fish_speech.codec_schema import FRAME_WINDOW, CodecSizes, codec_layout
from antiphon.families.fish_speech.config import (
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    FishSpeechConfig,
    load_config,
)
from antiphon.families.fish_speech.random_configs import CODEC
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import Shape

_NUMBER_BYTES, _CODEC_NUMBER_BYTES = 2, 4  # bfloat16; the codec is float32
_PROMPT_POSITIONS = 60  # of a sentence, and of what is around it
_LAUNCHES_A_LAYER = 6  # four products, attention and its turning
_LAUNCHES_A_DRAW = 20
_ENDS_LAUNCHES = 40  # of a frame, which are in no layer
_DILATIONS = (1, 3, 9)

# Of docs/performance.md, by the width of the language model: S2 Pro.
_MEASURED_MS = {2560: {"H200": {1: 5.38, 8: 6.54, 64: 10.32}}}


def footprint(path: Path) -> Footprint:
    """Return what a checkpoint's directory takes of a GPU; reads no tensor.

    Raises:
        ModelLoadError: its configuration cannot be read.
    """
    config, codec = load_config(path), CODEC["published"]
    products, layout = frame_products(config), codec_layout(codec)
    model = sum(math.prod(shape) for shape in layout_of(config).values())
    num_layers = config.slow.num_layers + (config.num_codebooks - 1) * config.fast.num_layers
    return Footprint(
        weight_bytes=_NUMBER_BYTES * model + _CODEC_NUMBER_BYTES * _numbers(layout),
        read_bytes=_NUMBER_BYTES * sum(map(_size, products)),
        stream_flop=2 * sum(_size(each) * each.num_positions for each in products),
        decoder_flop=decoder_flop(codec, layout),
        position_bytes=_NUMBER_BYTES * _kept_numbers(config.slow),
        slot_bytes=_CODEC_NUMBER_BYTES * slot_numbers(codec),
        num_launches=_LAUNCHES_A_LAYER * num_layers
        + _LAUNCHES_A_DRAW * config.num_codebooks
        + _ENDS_LAUNCHES,
        frames_per_s=SAMPLE_RATE_HZ / SAMPLES_PER_FRAME,
        prompt_positions=_PROMPT_POSITIONS,
        measured_ms=_MEASURED_MS.get(config.slow.hidden_size, {}),
    )


def frame_products(config: FishSpeechConfig) -> list[Product]:
    """Return the matrix products of one frame, in order; what reads the same input is one product.

    The slow model runs once and the fast one once for each further codebook: its first pass takes
    two positions. All of its passes read the same matrices.
    """
    width = config.slow.hidden_size
    products = _layers("slow", config.slow)
    products.append(Product("slow.head", config.tokens.num_semantic + 1, width))
    if config.has_projection:
        products.append(Product("projection", config.fast.hidden_size, width))
    for codebook in range(1, config.num_codebooks):
        products += _layers("fast", config.fast, 2 if codebook == 1 else 1)
        products.append(Product("fast.head", config.residual_codes, config.fast.hidden_size))
    return products


def decoder_flop(sizes: CodecSizes, layout: dict[str, Shape]) -> int:
    """Return the additions and multiplications of the codec's decoder for a frame."""
    flop = 0
    for name, shape in layout.items():
        if name.endswith("weight") and len(shape) > 1:
            flop += 2 * math.prod(shape) * _num_columns(name, sizes)
    return flop


def slot_numbers(sizes: CodecSizes) -> int:
    """Return how many numbers the codec keeps of a stream: keys, values and columns."""
    kept = FRAME_WINDOW * _kept_numbers(sizes.frames)
    width = sizes.decoder_width
    for _ in sizes.rates:
        kept += width + sum(6 * dilation for dilation in _DILATIONS) * width // 2
        width //= 2
    return kept


def _num_columns(name: str, sizes: CodecSizes) -> int:
    """Return how many columns of a frame a weight is applied to; 0: none of the decoder's."""
    if name.startswith("quantizer.post_module"):
        return 1
    if found := re.match(r"quantizer\.upsample\.(\d+)\.(\d)", name):
        return math.prod(sizes.factors[::-1][: int(found[1]) + int(found[2] != "0")])
    if found := re.match(r"decoder\.model\.(\d+)\.(block\.1\.)?", name):
        num_done = int(found[1]) - (found[2] is not None)
        return math.prod(sizes.factors) * math.prod(sizes.rates[:num_done])
    return 0


def _layers(name: str, sizes: TransformerConfig, num_positions: int = 1) -> list[Product]:
    width, inner = sizes.hidden_size, sizes.intermediate_size
    queries = sizes.num_heads * sizes.head_dim
    joined = queries + 2 * sizes.num_kv_heads * sizes.head_dim
    parts = [("qkv", joined, width), ("out", width, queries)]
    parts += [("up", 2 * inner, width), ("down", width, inner)]
    return [
        Product(f"{name}.{layer}.{part}", num_outputs, num_inputs, num_positions)
        for layer in range(sizes.num_layers)
        for part, num_outputs, num_inputs in parts
    ]


def _numbers(layout: dict[str, Shape]) -> int:
    return sum(map(math.prod, layout.values()))


def _kept_numbers(sizes: TransformerConfig) -> int:
    """Return the numbers of keys and values of a position."""
    return 2 * sizes.num_layers * sizes.num_kv_heads * sizes.head_dim


def _size(product: Product) -> int:
    return product.num_outputs * product.num_inputs
