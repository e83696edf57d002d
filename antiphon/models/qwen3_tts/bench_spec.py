"""What measurements need to know: how to make speech never end, and what a frame must multiply."""

import json
from pathlib import Path

from antiphon.models.qwen3_tts.config_reader import load_config
from antiphon.models.spec import Product
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import tensor_files

_HEAD = "talker.codec_head.weight"


def make_endless(path: Path) -> None:
    """Change a checkpoint of random weights so that its speech never ends by itself.

    The row that scores the end of speech becomes zero, and so does its score: at least fifty of two
    thousand random scores are higher, and no draw among the likeliest comes upon it.
    """
    eos = load_config(path).talker.tokens.eos
    for file in tensor_files(path):
        with file.open("r+b") as stream:
            header_bytes = int.from_bytes(stream.read(8), "little")
            tensors = json.loads(stream.read(header_bytes))
            if _HEAD not in tensors:
                continue
            start, end = tensors[_HEAD]["data_offsets"]
            row_bytes = (end - start) // tensors[_HEAD]["shape"][0]
            stream.seek(8 + header_bytes + start + eos * row_bytes)
            stream.write(bytes(row_bytes))


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
