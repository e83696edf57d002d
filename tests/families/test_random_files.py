"""Files of random weights hold what was requested."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from antiphon.nn.random_weights import Dtype
from tests.families.random_files import RandomTensor, write_tensors

TENSORS = {
    "a.weight": RandomTensor((33, 5), std=0.5),
    "b.weight": RandomTensor((7, 3, 2), std=1.0, mean=2.0),
    "c": RandomTensor((1,), std=0.0, mean=1.0),
    "d.bias": RandomTensor((64,), std=0.1),
    "e.weight": RandomTensor((100, 4), std=1.0),
}


def test_rows_are_scaled_and_moved() -> None:
    plain = RandomTensor((10, 8), std=1.0, mean=2.0).values("x", 0)
    edited = RandomTensor((10, 8), 1.0, 2.0, row_gains={3: 2.0}, row_means={4: 1.0}).values("x", 0)
    plain[3] *= 2
    plain[4] += 1
    assert edited.tolist() == plain.tolist()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_files_hold_what_was_drawn(tmp_path: Path, shards: int, dtype: Dtype) -> None:
    write_tensors(tmp_path, TENSORS, 5, "float32", shards=4)
    write_tensors(tmp_path, TENSORS, 5, dtype, shards=shards)
    files = list(tmp_path.glob("*.safetensors"))
    assert len(files) == shards, "what was there before is gone"
    assert (tmp_path / "model.safetensors.index.json").exists() == (shards > 1)
    stored = {name: tensor for file in files for name, tensor in load_file(file).items()}
    assert sum(len(load_file(file)) for file in files) == len(TENSORS)
    for name, tensor in TENSORS.items():
        exact = torch.from_numpy(tensor.values(name, 5))
        assert torch.equal(stored[name], exact.to(getattr(torch, dtype)))
