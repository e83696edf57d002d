"""What measurements need to know: how to make speech never end, and what a token must multiply."""

from pathlib import Path

import torch

from antiphon.contracts.family import Product
from antiphon.families.cosyvoice3.checkpoint import LANGUAGE_FILE, TEXT_PREFIX
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.kit.weight_edits import head_row, leaning_rows


def make_endless(path: Path) -> None:
    """Change a checkpoint of random weights so that its speech never ends by itself.

    What ends speech scores below all tokens: draws against repetitions are from the whole
    distribution, so that it must not be merely unlikely.
    """
    config, file = load_config(path), path / LANGUAGE_FILE
    tensors = torch.load(file, weights_only=True)
    end = head_row(config.text, is_wanted=False)
    head = dict.fromkeys(range(config.num_tokens, config.num_speech_ids), end)
    edits = {**leaning_rows(TEXT_PREFIX, config.text), "llm_decoder.weight": head}
    for name, rows in edits.items():
        for row, values in rows.items():
            tensors[name][row] = torch.from_numpy(values).view_as(tensors[name][row])
    torch.save(tensors, file)


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one speech token, in order; the flow is none of its model."""
    config = load_config(path)
    sizes = config.text
    queries = sizes.num_heads * sizes.head_dim
    joined = queries + 2 * sizes.num_kv_heads * sizes.head_dim
    width, inner = sizes.hidden_size, sizes.intermediate_size
    parts = [("qkv", joined, width), ("out", width, queries)]
    parts += [("up", 2 * inner, width), ("down", width, inner)]
    products = [
        Product(f"text.{layer}.{part}", num_outputs, num_inputs)
        for layer in range(sizes.num_layers)
        for part, num_outputs, num_inputs in parts
    ]
    return [*products, Product("head", config.num_speech_ids, width)]
