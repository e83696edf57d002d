"""What measurements need to know: how to make speech never end, and what a frame must multiply."""

from pathlib import Path

import numpy as np

from antiphon.contracts.family import Product
from antiphon.families.kit.weight_edits import write_rows
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.nn.layer_configs import TransformerConfig

_HEAD = "talker.codec_head.weight"


def make_endless(path: Path) -> None:
    """Change a checkpoint of random weights so that its speech never ends by itself.

    The row that scores the end of speech becomes zero, and so does its score: at least fifty of two
    thousand random scores are higher, and no draw among the likeliest comes upon it.
    """
    talker = load_config(path).talker
    zeros = np.zeros(talker.transformer.hidden_size, np.float32)
    write_rows(path, {_HEAD: {talker.tokens.eos: zeros}})


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one frame, in order; what reads the same input is one product.

    The talker runs once and the predictor once for each further group: its first pass takes two
    positions, and none of the others can begin before the one before it has ended.
    """
    config = load_config(path)
    talker, predictor = config.talker, config.predictor
    width = talker.transformer.hidden_size
    products = _layers("talker", talker.transformer)
    products.append(Product("talker.head", talker.vocab_size, width))
    for index in range(predictor.num_groups - 1):
        num_positions = 2 if index == 0 else 1
        inner = predictor.transformer
        if predictor.has_projection:
            products.append(Product("projection", inner.hidden_size, width, num_positions))
        products += _layers("predictor", inner, num_positions)
        products.append(Product(f"head.{index}", predictor.vocab_size, inner.hidden_size))
    return products


def _layers(name: str, shape: TransformerConfig, num_positions: int = 1) -> list[Product]:
    width, inner = shape.hidden_size, shape.intermediate_size
    queries = shape.num_heads * shape.head_dim
    keys_and_values = 2 * shape.num_kv_heads * shape.head_dim
    return [
        Product(f"{name}.{layer}.{part}", num_outputs, num_inputs, num_positions)
        for layer in range(shape.num_layers)
        for part, num_outputs, num_inputs in (
            ("qkv", queries + keys_and_values, width),
            ("out", width, queries),
            ("up", 2 * inner, width),
            ("down", width, inner),
        )
    ]
