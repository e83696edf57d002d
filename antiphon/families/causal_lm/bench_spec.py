"""What measurements need to know: what a token must multiply."""

from pathlib import Path

from antiphon.contracts.family import Product
from antiphon.families.causal_lm.config import load_config


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one token, in order; what reads the same input is one product.

    Of the embedding a token reads one row, unless it is the head, too.
    """
    config = load_config(path)
    sizes = config.transformer
    width, inner = sizes.hidden_size, sizes.intermediate_size
    queries = sizes.num_heads * sizes.head_dim
    joined = queries + 2 * sizes.num_kv_heads * sizes.head_dim
    parts = [("qkv", joined, width), ("out", width, queries)]
    parts += [("up", 2 * inner, width), ("down", width, inner)]
    products = [
        Product(f"{layer}.{part}", num_outputs, num_inputs)
        for layer in range(sizes.num_layers)
        for part, num_outputs, num_inputs in parts
    ]
    return [*products, Product("head", config.vocab_size, width)]
