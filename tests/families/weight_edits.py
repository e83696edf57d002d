"""Edits of weight rows in files of random checkpoints."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import tensor_files

Rows: TypeAlias = Mapping[str, Mapping[int, NDArray[np.float32]]]
"""New values of rows, flat, by tensor and index on the first axis."""

_LEAN = 200.0
"""Magnitude far above the other numbers of a state before the last norm, in any size."""
_HEAD_GAIN = 10.0


def write_rows(directory: Path, rows: Rows) -> None:
    """Overwrite rows in model.safetensors or its shards; raises KeyError if a tensor is nowhere."""
    missing = set(rows)
    for file in tensor_files(directory):
        tensors = load_file(file)
        for name in rows.keys() & tensors.keys():
            for row, values in rows[name].items():
                tensors[name][row] = torch.from_numpy(values).view_as(tensors[name][row])
        save_file(tensors, file, {"format": "pt"})
        missing -= tensors.keys()
    if missing:
        raise KeyError(", ".join(sorted(missing)))


def leaning_rows(prefix: str, sizes: TransformerConfig) -> Rows:
    """Return rows of the last layer that make one number of every state large and positive.

    The bias of values is part of each head's result for any attention, so the output projection
    makes a constant of it. A head can then score one output above all others for any input; see
    `head_row`.

    Args:
        prefix: prefix of the transformer's names; its values must have a bias.
        sizes: sizes of the transformer.
    """
    layer = f"{prefix}.layers.{sizes.num_layers - 1}.self_attn"
    num_inputs = sizes.num_heads * sizes.head_dim
    num_values = sizes.num_kv_heads * sizes.head_dim
    one = np.ones(1, np.float32)
    return {
        f"{layer}.v_proj.bias": dict.fromkeys(range(num_values), one),
        f"{layer}.o_proj.weight": {0: np.full(num_inputs, _LEAN / num_inputs, np.float32)},
    }


def head_row(sizes: TransformerConfig) -> NDArray[np.float32]:
    """Return a row of a head that is always drawn after `leaning_rows`."""
    row = np.zeros(sizes.hidden_size, np.float32)
    row[0] = _HEAD_GAIN
    return row
