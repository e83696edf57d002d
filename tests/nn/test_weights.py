"""Weights are read lazily and strictly: what is missing, unknown, misshapen or unread is named."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from antiphon.errors import ModelLoadError
from antiphon.nn.cpu.mapped_file import MappedFile
from antiphon.nn.safetensors_index import WeightsPart
from antiphon.nn.weights import open_weights

TENSORS = {
    "a.weight": torch.arange(6.0).reshape(2, 3),
    "a.bias": torch.tensor([1.0, 2.0]),
    "b.weight": torch.full((4,), 1.00390625, dtype=torch.bfloat16),
}
LAYOUT = {name: tuple(tensor.shape) for name, tensor in TENSORS.items()}
LIKE = torch.empty(0)


def part(path: Path, layout: dict[str, tuple[int, ...]] = LAYOUT, **more: Any) -> WeightsPart:
    return WeightsPart(directory=path, layout=layout, **more)


def write(path: Path, *shards: tuple[str, ...]) -> None:
    if not shards:
        save_file(TENSORS, path / "model.safetensors")
        return
    weight_map: dict[str, str] = {}
    for number, names in enumerate(shards):
        save_file({name: TENSORS[name] for name in names}, path / f"{number}.safetensors")
        weight_map |= dict.fromkeys(names, f"{number}.safetensors")
    write_index(path, {"weight_map": weight_map})


def write_index(path: Path, content: object) -> None:
    (path / "model.safetensors.index.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    "shards", [(), (("a.weight", "a.bias", "b.weight"),), (("a.bias",), ("a.weight", "b.weight"))]
)
def test_all_tensors_are_found_however_they_are_stored(
    tmp_path: Path, shards: tuple[tuple[str, ...], ...]
) -> None:
    write(tmp_path, *shards)
    with open_weights(part(tmp_path), like=LIKE) as weights:
        assert set(weights) == set(TENSORS)
        assert len(weights) == 3
        for name, tensor in TENSORS.items():
            assert torch.equal(weights[name], tensor.float())


def test_a_file_is_opened_once_however_many_tensors_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    opened: list[Path] = []

    def noted(path: Path) -> MappedFile:
        opened.append(path)
        return MappedFile(path)

    monkeypatch.setattr("antiphon.nn.quantized.open_tensors.MappedFile", noted)
    with open_weights(part(tmp_path), like=LIKE) as weights:
        assert all(len(weights[name]) for name in weights)
    assert opened == [tmp_path / "model.safetensors"]


def test_tensors_are_converted_and_outlive_the_files(tmp_path: Path) -> None:
    write(tmp_path)
    with open_weights(part(tmp_path), like=LIKE.to(torch.bfloat16)) as weights:
        read = {name: weights[name] for name in weights}
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 1000)
    for name, tensor in TENSORS.items():
        assert read[name].dtype == torch.bfloat16
        assert torch.equal(read[name], tensor.to(torch.bfloat16))


def test_a_tensor_may_be_changed_without_changing_the_next_reading(tmp_path: Path) -> None:
    write(tmp_path)
    with open_weights(part(tmp_path, prefix="a."), like=LIKE) as weights:
        weights["a.bias"].zero_()
        assert torch.equal(weights["a.bias"], TENSORS["a.bias"])
        assert "a.weight" in weights
        assert weights["a.weight"].shape == (2, 3)


def test_looking_for_a_name_reads_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    told: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    with open_weights(part(tmp_path), like=LIKE, progress=tell) as weights:
        assert "a.bias" in weights
        assert "c" not in weights
        assert weights.get("c") is None
        assert told == []
        with pytest.raises(KeyError):
            weights["c"]
        for name in weights:
            assert weights[name] is not None
    assert told[-1] == (40, 40)
    assert len(told) == 3


def test_a_part_hides_the_rest(tmp_path: Path) -> None:
    write(tmp_path)
    with open_weights(part(tmp_path, prefix="a.", unused=r".*\.bias"), like=LIKE) as weights:
        assert set(weights) == {"a.weight"}
        assert weights["a.weight"].shape == (2, 3)


def test_what_is_read_elsewhere_is_in_no_layout(tmp_path: Path) -> None:
    write(tmp_path)
    layout = {name: shape for name, shape in LAYOUT.items() if name.startswith("a.")}
    with open_weights(part(tmp_path, layout, others=r"b\..*"), like=LIKE) as weights:
        assert {name: weights[name].shape for name in weights} == layout


def test_a_tensor_that_nobody_reads_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    with (
        pytest.raises(ModelLoadError, match=r"never read: a\.bias, b\.weight$"),
        open_weights(part(tmp_path), like=LIKE) as weights,
    ):
        assert weights["a.weight"].shape == (2, 3)


def test_an_error_while_building_is_not_hidden(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(ZeroDivisionError), open_weights(part(tmp_path), like=LIKE):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (LAYOUT | {"c": (1,)}, "missing: c$"),
        ({"a.weight": (2, 3), "a.bias": (2,)}, r"not part of such a model: b\.weight$"),
        (LAYOUT | {"a.bias": (3,)}, r"of another shape: a\.bias is \[2\], not \[3\]$"),
        (
            {f"t{number}": (1,) for number in range(20)} | LAYOUT,
            r"missing: t0, t1, t10, t11, t12, t13, t14, t15 and 12 more$",
        ),
    ],
)
def test_files_that_differ_from_the_layout_are_refused(
    tmp_path: Path, layout: dict[str, tuple[int, ...]], message: str
) -> None:
    write(tmp_path)
    with (
        pytest.raises(ModelLoadError, match=message),
        open_weights(part(tmp_path, layout), like=LIKE),
    ):
        pass


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2, dtype=torch.int8)}, tmp_path / "model.safetensors")
    with (
        pytest.raises(ModelLoadError, match="'a' is I8"),
        open_weights(part(tmp_path, {"a": (2,)}), like=LIKE),
    ):
        pass


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, ("a.weight", "a.bias"), ("a.bias", "b.weight"))
    with (
        pytest.raises(ModelLoadError, match=r"holds a\.bias too"),
        open_weights(part(tmp_path), like=LIKE),
    ):
        pass


@pytest.mark.parametrize(
    "index",
    [
        [],
        {},
        {"weight_map": []},
        {"weight_map": {"a": "missing.safetensors"}},
        {"weight_map": {"a": "../other.safetensors"}},
        {"weight_map": {"a": 3}},
    ],
)
def test_a_broken_index_is_refused(tmp_path: Path, index: object) -> None:
    write_index(tmp_path, index)
    with pytest.raises(ModelLoadError), open_weights(part(tmp_path), like=LIKE):
        pass


@pytest.mark.parametrize("num_bytes", [0, 4, 60, -4])
def test_a_broken_file_is_named(tmp_path: Path, num_bytes: int) -> None:
    write(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:num_bytes])
    with (
        pytest.raises(ModelLoadError, match=r"model\.safetensors"),
        open_weights(part(tmp_path), like=LIKE),
    ):
        pass


def test_an_empty_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="neither"), open_weights(part(tmp_path), like=LIKE):
        pass


def test_tensors_are_read_by_their_aliases(tmp_path: Path) -> None:
    write(tmp_path)
    with open_weights(part(tmp_path, aliases={"a.weight": "c"}), like=LIKE) as weights:
        assert set(weights) == {"a.bias", "b.weight", "c"}
        assert torch.equal(weights["c"], TENSORS["a.weight"])
        assert all(len(weights[name]) for name in weights)
