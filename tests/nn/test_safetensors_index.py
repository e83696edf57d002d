"""Headers tell what files hold, and what is wrong with them, as the library itself sees it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from antiphon.errors import ModelLoadError
from antiphon.nn.safetensors_index import layout_problems, read_tensor_headers, some, tensor_files

TENSORS: dict[str, NDArray[Any]] = {
    "scalar": np.array(1.0, np.float32),
    "half": np.zeros((3, 2), np.float16),
    "empty": np.zeros((0, 4), np.float32),
    "whole": np.zeros((2, 3, 4), np.int64),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_file(TENSORS, tmp_path / "model.safetensors", {"format": "pt"})
    return tmp_path / "model.safetensors"


def test_every_tensor_is_told(file: Path) -> None:
    headers = {header.name: header for header in read_tensor_headers(file)}
    assert headers.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        header = headers[name]
        assert (header.shape, header.num_values) == (tensor.shape, tensor.size)
        assert header.num_bytes == tensor.nbytes
    assert [headers[name].dtype for name in TENSORS] == ["F32", "F16", "F32", "I64"]


@pytest.mark.parametrize("num_bytes", [0, 7, 8, 40, -1])
def test_a_file_that_was_cut_is_refused(file: Path, num_bytes: int) -> None:
    file.write_bytes(file.read_bytes()[:num_bytes])
    with pytest.raises(ModelLoadError, match=r"model\.safetensors"):
        read_tensor_headers(file)


@pytest.mark.parametrize(
    "content",
    [
        b"version https://example.org/spec/v1\noid sha256:0\nsize 1\n",  # of a file kept elsewhere
        (2).to_bytes(8, "little") + b"[]",
        (12).to_bytes(8, "little") + b'{"a": "text"}'[:12],
        (13).to_bytes(8, "little") + b'{"a": {"b":1}}'[:13],
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelLoadError, match="no safetensors file"):
        read_tensor_headers(tmp_path / "model.safetensors")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="No such file"):
        read_tensor_headers(tmp_path / "model.safetensors")


def test_an_index_names_the_files(tmp_path: Path) -> None:
    index = {"weight_map": {"x": "two.safetensors", "y": "one.safetensors", "z": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert [file.name for file in tensor_files(tmp_path)] == ["one.safetensors", "two.safetensors"]


def test_differences_from_a_layout_are_named() -> None:
    layout = {"same": (1,), "other": (2, 3), "missing": (4,)}
    found = {"same": (1,), "other": (3, 2), "unknown": (5,)}
    told = "; ".join(layout_problems(found, layout))
    assert "missing: missing" in told
    assert "not part of such a model: unknown" in told
    assert "other is [3, 2], not [2, 3]" in told
    assert layout_problems(layout, layout) == []


def test_many_names_are_cut_short() -> None:
    assert some(f"{number:02}" for number in range(20)).endswith("07 and 12 more")
    assert some({"b", "a"}) == "a, b"
