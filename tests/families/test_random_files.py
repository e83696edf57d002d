"""Files of random weights hold what was requested."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.families.random_files import RandomTensor, num_bytes, write_safetensors, write_sharded

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


def test_written_bytes_are_reported(tmp_path: Path) -> None:
    written: list[int] = []
    write_safetensors(tmp_path / "f.safetensors", TENSORS, 5, "bfloat16", written.append)
    assert sum(written) == num_bytes(TENSORS, "bfloat16")


def test_a_file_holds_what_was_made(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "f.safetensors", TENSORS, 5, "float32")
    stored = load_file(tmp_path / "f.safetensors")
    assert stored.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert np.array_equal(stored[name].numpy(), tensor.values(name, 5))


def test_bfloat16_is_rounded_to_nearest(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "f.safetensors", TENSORS, 5, "bfloat16")
    stored = load_file(tmp_path / "f.safetensors")
    for name, tensor in TENSORS.items():
        exact = torch.from_numpy(tensor.values(name, 5))
        assert torch.equal(stored[name], exact.to(torch.bfloat16))


@pytest.mark.parametrize("num_shards", [1, 2, 3, 5])
def test_shards_hold_the_same_tensors(tmp_path: Path, num_shards: int) -> None:
    write_sharded(tmp_path, TENSORS, 5, "float32", num_shards=4)
    write_sharded(tmp_path, TENSORS, 5, "float32", num_shards)
    files = list(tmp_path.glob("*.safetensors"))
    assert len(files) == num_shards, "what was there before is gone"
    assert (tmp_path / "model.safetensors.index.json").exists() == (num_shards > 1)
    stored = {name: tensor for file in files for name, tensor in load_file(file).items()}
    assert sum(len(load_file(file)) for file in files) == len(TENSORS)
    for name, tensor in TENSORS.items():
        assert np.array_equal(stored[name].numpy(), tensor.values(name, 5))
