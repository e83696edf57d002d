"""Random weights depend on seed, name and place only, and files hold what was asked for."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from antiphon.nn.random_weights import (
    RandomTensor,
    num_bytes,
    random_values,
    write_safetensors,
    write_sharded,
)

TENSORS = {
    "a.weight": RandomTensor((33, 5), std=0.5),
    "b.weight": RandomTensor((7, 3, 2), std=1.0, mean=2.0),
    "c": RandomTensor((1,), std=0.0, mean=1.0),
    "d.bias": RandomTensor((64,), std=0.1),
    "e.weight": RandomTensor((100, 4), std=1.0),
}


def values_of(name: str, tensor: RandomTensor, seed: int) -> np.ndarray:
    return np.concatenate(list(random_values(name, tensor, seed))).reshape(tensor.shape)


def test_values_are_the_same_on_every_machine() -> None:
    values = values_of("a.weight", RandomTensor((6,), std=1.0), seed=0)
    expected = [1.4271427, -0.66563845, -0.55198693, -0.079783775, 0.12115899, 0.0072425776]
    assert values.tolist() == np.array(expected, np.float32).tolist()


def test_values_have_the_mean_and_deviation_that_were_asked_for() -> None:
    values = values_of("x", RandomTensor((500, 500), std=0.3, mean=1.5), seed=1)
    assert values.mean() == pytest.approx(1.5, abs=0.01)
    assert values.std() == pytest.approx(0.3, rel=0.01)
    assert np.abs(values - 1.5).max() <= 0.3 * 3**0.5 + 1e-6


def test_seeds_and_names_differ() -> None:
    tensor = RandomTensor((100,), std=1.0)
    made = [values_of(name, tensor, seed) for name in ("x", "y") for seed in (0, 1)]
    assert len({values.tobytes() for values in made}) == 4


@given(st.integers(1, 40), st.integers(1, 40))
def test_a_longer_tensor_begins_like_a_shorter_one(short: int, more: int) -> None:
    first = values_of("x", RandomTensor((short,), std=1.0), seed=3)
    longer = values_of("x", RandomTensor((short + more,), std=1.0), seed=3)
    assert longer[:short].tolist() == first.tolist()


def test_row_gains_scale_single_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = RandomTensor((10, 8), std=1.0)
    gained = RandomTensor((10, 8), std=1.0, row_gains={3: 2.0})
    # Pieces that end inside the row must make no difference.
    monkeypatch.setattr("antiphon.nn.random_weights._VALUES_AT_ONCE", 28)
    expected = values_of("x", plain, seed=0)
    expected[3] *= 2
    assert values_of("x", gained, seed=0).tolist() == expected.tolist()


def test_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = RandomTensor((1000,), std=1.0)
    whole = values_of("x", tensor, seed=0)
    monkeypatch.setattr("antiphon.nn.random_weights._VALUES_AT_ONCE", 64)
    assert values_of("x", tensor, seed=0).tolist() == whole.tolist()


def test_files_are_the_same_in_however_many_pieces_and_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = TENSORS | {"f": RandomTensor((999,), std=1.0)}
    write_safetensors(tmp_path / "whole", tensors, 5, "bfloat16")
    told: list[int] = []
    for threads in (1, 4):
        monkeypatch.setattr("antiphon.nn.random_weights._VALUES_AT_ONCE", 8)
        monkeypatch.setattr("antiphon.nn.random_weights._MOST_THREADS", threads)
        monkeypatch.setattr("os.cpu_count", lambda: 16)
        write_safetensors(tmp_path / "pieces", tensors, 5, "bfloat16", told.append)
        assert (tmp_path / "pieces").read_bytes() == (tmp_path / "whole").read_bytes()
    assert len(told) > 300
    assert sum(told) == 2 * num_bytes(tensors, "bfloat16")


def test_a_file_holds_what_was_made(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "f.safetensors", TENSORS, 5, "float32")
    stored = load_file(tmp_path / "f.safetensors")
    assert stored.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert np.array_equal(stored[name].numpy(), values_of(name, tensor, 5))


def test_bfloat16_is_rounded_to_nearest(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "f.safetensors", TENSORS, 5, "bfloat16")
    stored = load_file(tmp_path / "f.safetensors")
    for name, tensor in TENSORS.items():
        exact = torch.from_numpy(values_of(name, tensor, 5))
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
        assert np.array_equal(stored[name].numpy(), values_of(name, tensor, 5))
