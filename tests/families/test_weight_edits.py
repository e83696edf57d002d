"""Rows of weights are overwritten in any file and type, and nothing else is."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from antiphon.nn.random_weights import Dtype
from tests.families.random_files import RandomTensor, write_tensors
from tests.families.weight_edits import write_rows

TENSORS = {
    "a.weight": RandomTensor((6, 5), std=0.5),
    "b.bias": RandomTensor((7,), std=1.0),
    "c.weight": RandomTensor((3, 2, 2), std=1.0),
}


def tensors_of(directory: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for file in directory.glob("*.safetensors"):
        found |= load_file(file)
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("num_shards", [1, 2])
def test_rows_are_overwritten_and_nothing_else(
    dtype: Dtype, num_shards: int, tmp_path: Path
) -> None:
    write_tensors(tmp_path, TENSORS, 0, dtype, shards=num_shards)
    wanted = tensors_of(tmp_path)
    row = np.array([1.0, -2.0, 0.5, 0.0, 8.0], np.float32)
    number, block = np.full(1, 3.0, np.float32), np.full(4, -1.5, np.float32)
    write_rows(
        tmp_path, {"a.weight": {2: row, 5: row}, "b.bias": {6: number}, "c.weight": {1: block}}
    )
    wanted["a.weight"][[2, 5]] = torch.from_numpy(row).to(wanted["a.weight"])
    wanted["b.bias"][6], wanted["c.weight"][1] = 3.0, -1.5
    found = tensors_of(tmp_path)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


def test_a_tensor_that_is_nowhere_is_told(tmp_path: Path) -> None:
    write_tensors(tmp_path, TENSORS, 0, "float32", shards=2)
    with pytest.raises(KeyError, match=r"d\.weight"):
        write_rows(tmp_path, {"a.weight": {}, "d.weight": {}})
