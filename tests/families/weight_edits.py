"""Edits of weight rows in files of random checkpoints."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.random_weights import Dtype
from antiphon.nn.safetensors_index import tensor_files
from tests.families.random_files import encoded_values

Rows: TypeAlias = Mapping[str, Mapping[int, NDArray[np.float32]]]
"""New values of rows, flat, by tensor and index on the first axis."""

_DTYPES: Mapping[str, Dtype] = {"F32": "float32", "BF16": "bfloat16"}
_LENGTH_BYTES = 8
_LEAN = 200.0
"""Magnitude far above the other numbers of a state before the last norm, in any size."""
_HEAD_GAIN = 10.0


def write_rows(directory: Path, rows: Rows) -> None:
    """Overwrite rows in model.safetensors or its shards, in place.

    Raises:
        KeyError: a tensor is in none of the files.
    """
    missing = set(rows)
    for file in tensor_files(directory):
        with file.open("r+b") as stream:
            header_bytes = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            tensors = json.loads(stream.read(header_bytes))
            for name in rows.keys() & tensors.keys():
                tensor = tensors[name]
                start, end = tensor["data_offsets"]
                row_bytes = (end - start) // tensor["shape"][0]
                for row, values in rows[name].items():
                    encoded = encoded_values(values, _DTYPES[tensor["dtype"]])
                    assert len(encoded) == row_bytes, name
                    stream.seek(_LENGTH_BYTES + header_bytes + start + row * row_bytes)
                    stream.write(encoded)
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
