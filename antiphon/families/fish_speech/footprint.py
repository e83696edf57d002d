"""GPU memory, traffic and arithmetic of a checkpoint, from its configuration.

The codec's sizes are the published ones, since no file states them.
"""

import math
import re
from pathlib import Path

from antiphon.contracts.family import Product
from antiphon.contracts.inspection import Footprint
from antiphon.families.fish_speech.checkpoint import layout_of
from antiphon.families.fish_speech.codec_schema import (
    DILATIONS,
    FRAME_WINDOW,
    CodecSizes,
    codec_layout,
)
from antiphon.families.fish_speech.config import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, load_config
from antiphon.families.kit.layouts import (
    FLOAT_BYTES,
    HALF_BYTES,
    columns_flop,
    num_values,
    read_bytes,
    stream_flop,
)

_PROMPT_POSITIONS = 60  # per sentence, with the surrounding tokens
_LAUNCHES_A_LAYER = 6  # four products, attention and rotary embedding
_LAUNCHES_A_DRAW = 20
_ENDS_LAUNCHES = 40  # per frame outside of layers

# From docs/performance.md, by width of the language model: S2 Pro.
_MEASURED_MS = {2560: {"H200": {1: 5.38, 8: 6.54, 64: 10.32}}}


def footprint(path: Path) -> Footprint:
    """Return the GPU requirements of a checkpoint's directory; reads no tensor.

    Raises:
        ModelLoadError: the configuration cannot be read.
    """
    config, codec = load_config(path), CodecSizes()
    products, layout = frame_products(path), codec_layout(codec)
    num_layers = config.slow.num_layers + (config.num_codebooks - 1) * config.fast.num_layers
    return Footprint(
        weight_bytes=HALF_BYTES * num_values(layout_of(config).values())
        + FLOAT_BYTES * num_values(layout.values()),
        read_bytes=read_bytes(products),
        stream_flop=stream_flop(products),
        decoder_flop=decoder_flop(codec),
        position_bytes=HALF_BYTES * config.slow.position_size,
        slot_bytes=FLOAT_BYTES * slot_numbers(codec),
        num_launches=_LAUNCHES_A_LAYER * num_layers
        + _LAUNCHES_A_DRAW * config.num_codebooks
        + _ENDS_LAUNCHES,
        frames_per_s=SAMPLE_RATE_HZ / SAMPLES_PER_FRAME,
        prompt_positions=_PROMPT_POSITIONS,
        measured_ms=_MEASURED_MS.get(config.slow.hidden_size, {}),
    )


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one frame, in order; those with a common input are merged.

    The slow model runs once, and the fast one once per further codebook; its first pass has two
    positions. All of its passes read the same weights.
    """
    config = load_config(path)
    width = config.slow.hidden_size
    products = config.slow.products("slow.")
    products.append(Product("slow.head", config.tokens.num_semantic + 1, width))
    if config.has_projection:
        products.append(Product("projection", config.fast.hidden_size, width))
    for codebook in range(1, config.num_codebooks):
        products += config.fast.products("fast.", 2 if codebook == 1 else 1)
        products.append(Product("fast.head", config.residual_codes, config.fast.hidden_size))
    return products


def decoder_flop(sizes: CodecSizes) -> int:
    """Return the additions and multiplications of the codec's decoder per frame."""
    return columns_flop(codec_layout(sizes), lambda name: _num_columns(name, sizes))


def slot_numbers(sizes: CodecSizes) -> int:
    """Return the size of the codec's state per stream: keys, values and columns."""
    kept = FRAME_WINDOW * sizes.frames.position_size
    width = sizes.decoder_width
    for _ in sizes.rates:
        kept += width + sum(6 * dilation for dilation in DILATIONS) * width // 2
        width //= 2
    return kept


def _num_columns(name: str, sizes: CodecSizes) -> int:
    """Return the columns per frame that a weight is applied to; 0 outside of the decoder."""
    if name.startswith("quantizer.post_module"):
        return 1
    if found := re.match(r"quantizer\.upsample\.(\d+)\.(\d)", name):
        return math.prod(sizes.factors[::-1][: int(found[1]) + int(found[2] != "0")])
    if found := re.match(r"decoder\.model\.(\d+)\.(block\.1\.)?", name):
        num_done = int(found[1]) - (found[2] is not None)
        return math.prod(sizes.factors) * math.prod(sizes.rates[:num_done])
    return 0
