"""Rows of matrices that are loaded when they are read."""

from torch import Tensor

from antiphon.nn.layers import Weights
from antiphon.nn.quantized.gguf_tensors import GGUFRows, GGUFTensors
from antiphon.nn.weights import LazyWeights


def stored_rows(weights: Weights, name: str) -> Tensor | GGUFRows:
    """Return a matrix as it is stored, of which, on a CPU, only rows that are read are loaded."""
    if not isinstance(weights, LazyWeights):
        return weights[name]
    _, file = weights.source(name)
    return file.rows(name) if isinstance(file, GGUFTensors) else weights.stored(name)
