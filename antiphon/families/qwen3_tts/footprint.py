"""GPU footprint of a checkpoint by its configuration: memory, traffic and arithmetic."""

import math
import re
from pathlib import Path

from antiphon.contracts.family import Product
from antiphon.contracts.inspection import Footprint
from antiphon.families.kit.layouts import (
    HALF_BYTES,
    columns_flop,
    num_values,
    read_bytes,
    stream_flop,
)
from antiphon.families.qwen3_tts.checkpoint import codec_layout, main_layout
from antiphon.families.qwen3_tts.config import CodecDecoderConfig, Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.nn.cuda.resident_limits import MAX_ROWS

_PROMPT_POSITIONS = 40  # of a sentence and a built-in voice
_ENDS_LAUNCHES = 30  # per frame, beside products, attention and draws

# From docs/performance.md: engine alone, streams of 100 frames, random weights.
_MEASURED_MS = {
    "1b7": {"H200": {1: 2.37, 8: 2.96, 64: 5.80, 256: 12.77}},
    "0b6": {"H200": {64: 5.08, 256: 12.05}},  # few streams: not measured with the program
}


def footprint(path: Path) -> Footprint:
    """Return the GPU footprint of a checkpoint by its configuration; raises ModelLoadError."""
    config, products = load_config(path), frame_products(path)
    codec, layout = config.codec, codec_layout(config)
    decoder = [shape for name, shape in layout.items() if name.startswith("decoder.")]
    return Footprint(
        weight_bytes=HALF_BYTES * (num_model_weights(config) + num_values(decoder)),
        read_bytes=read_bytes(products),
        stream_flop=stream_flop(products),
        decoder_flop=columns_flop(layout, lambda name: _num_columns(name, codec.decoder)),
        position_bytes=HALF_BYTES * config.talker.transformer.position_size,
        num_launches=_num_kernels(products) + config.predictor.num_groups + _ENDS_LAUNCHES,
        frames_per_s=codec.sample_rate_hz / codec.samples_per_frame,
        prompt_positions=_PROMPT_POSITIONS,
        measured_ms=_MEASURED_MS.get(config.model_size, {}),
        num_resident=_num_inner_launches(config, products),
        resident_streams=MAX_ROWS,
    )


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one frame, in order; products that share an input are joined.

    The talker runs once and the predictor once for each further group: its first pass takes two
    positions, and each pass depends on the one before.
    """
    config = load_config(path)
    talker, predictor = config.talker, config.predictor
    width = talker.transformer.hidden_size
    products = talker.transformer.products("talker.")
    products.append(Product("talker.head", talker.vocab_size, width))
    for index in range(predictor.num_groups - 1):
        num_positions = 2 if index == 0 else 1
        inner = predictor.transformer
        if predictor.has_projection:
            products.append(Product("projection", inner.hidden_size, width, num_positions))
        products += inner.products("predictor.", num_positions)
        products.append(Product(f"head.{index}", predictor.vocab_size, inner.hidden_size))
    return products


def num_model_weights(config: Qwen3TTSConfig, quantize: str | None = None) -> int:
    """Return the numbers in talker and predictor, embeddings folded; an int8 one is a half."""
    talker, predictor = config.talker, config.predictor
    layout = main_layout(config).items()
    kept = (shape for name, shape in layout if not re.search("text_(embedding|projection)", name))
    numbers = num_values(kept) + talker.text_vocab_size * talker.transformer.hidden_size
    if predictor.has_projection:
        folded = talker.vocab_size + (predictor.num_groups - 2) * predictor.vocab_size
        numbers += folded * predictor.transformer.hidden_size
    if quantize == "int8":
        stacks = talker.transformer, predictor.transformer
        numbers -= sum(each.num_weights for stack in stacks for each in stack.products("")) // 2
    return numbers


def _num_kernels(products: list[Product]) -> int:
    return len(products) + sum(each.weight.endswith(".qkv") for each in products)


def _num_inner_launches(config: Qwen3TTSConfig, products: list[Product]) -> int:
    """Return the number of kernels of a frame's inner codes without the resident program."""
    inner = [each for each in products if each.weight.startswith(("predictor.", "head."))]
    return _num_kernels(inner) + config.predictor.num_groups - 1


def _num_columns(name: str, config: CodecDecoderConfig) -> int:
    """Return the columns per frame that a weight of the codec's decoder is applied to."""
    if not name.startswith("decoder.") or "quantizer" in name:
        return 0
    ratios, rates = config.upsampling_ratios, config.upsample_rates
    if found := re.match(r"decoder\.upsample\.(\d+)\.(\d)", name):
        return math.prod(ratios[: int(found[1]) + int(found[2] != "0")])
    if found := re.match(r"decoder\.decoder\.(\d+)(\.block\.1\.)?", name):
        num_done = int(found[1]) - (found[2] is not None)
        return math.prod(ratios) * math.prod(rates[:num_done])
    return 1
