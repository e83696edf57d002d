"""A checkpoint's JSON is read with types, and every error names the file and the key."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError


def section(tmp_path: Path, values: Any) -> ConfigSection:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    return ConfigSection.read(file)


def test_values_have_their_types(tmp_path: Path) -> None:
    read = section(
        tmp_path,
        {"n": 3, "x": 1, "b": False, "s": "a", "l": [1, 2], "ids": {"Anna": 7}, "o": {"n": 4}},
    )
    assert read.integer("n") == 3
    assert isinstance(read.number("x"), float)
    assert read.boolean("b") is False
    assert read.text("s") == "a"
    assert read.integers("l") == (1, 2)
    assert dict(read.ids("ids")) == {"anna": 7}
    assert read.section("o").integer("n") == 4


def test_defaults_stand_in_for_missing_keys_and_null(tmp_path: Path) -> None:
    read = section(tmp_path, {"null": None})
    for key in ("null", "missing"):
        assert read.integer(key, 5) == 5
        assert read.number(key, 0.5) == 0.5
        assert read.boolean(key, False) is False
        assert read.integers(key, (1,)) == (1,)
        assert dict(read.section(key, {}).values) == {}
        read.expect(key, "silu", default="silu")


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ({}, lambda top: top.integer("key")),
        ({"key": "3"}, lambda top: top.integer("key")),
        ({"key": True}, lambda top: top.integer("key")),
        ({"key": 1.5}, lambda top: top.integer("key")),
        ({"key": -1}, lambda top: top.integer("key")),
        ({"key": "x"}, lambda top: top.number("key")),
        ({"key": float("nan")}, lambda top: top.number("key")),
        ({"key": 1}, lambda top: top.boolean("key")),
        ({"key": [1, "2"]}, lambda top: top.integers("key")),
        ({"key": 3}, lambda top: top.integers("key")),
        ({"key": {"a": "b"}}, lambda top: top.ids("key")),
        ({"key": []}, lambda top: top.section("key")),
        ({"key": "gelu"}, lambda top: top.expect("key", "silu", default="silu")),
        ({}, lambda top: top.expect("key", "silu")),
    ],
)
def test_wrong_values_are_named_with_their_path(
    tmp_path: Path, values: Any, read: Callable[[ConfigSection], object]
) -> None:
    top = section(tmp_path, {"outer": values})
    with pytest.raises(ModelLoadError, match=r"config\.json: 'outer\.key"):
        read(top.section("outer"))


@pytest.mark.parametrize("content", ["", "{", "[]", "\udcff"])
def test_files_that_hold_no_object_are_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelLoadError, match=r"config\.json"):
        ConfigSection.read(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"config\.json"):
        ConfigSection.read(tmp_path / "config.json")


@dataclass(frozen=True)
class Sizes:
    width: int
    rate: float
    strides: tuple[int, ...] = (2, 3)
    is_causal: bool = True
    scaling: dict[str, float] | None = None


def test_a_dataclass_is_read_by_the_types_of_its_fields(tmp_path: Path) -> None:
    read = section(tmp_path, {"hidden_size": 8, "rate": 2, "scaling": {}, "is_causal": False})
    built = read.build(Sizes, {"width": "hidden_size"})
    assert built == Sizes(8, 2.0, is_causal=False)
    assert isinstance(built.rate, float)
    assert read.build(Sizes, defaults={"width": 5}, rate=0.5) == Sizes(5, 0.5, is_causal=False)
    with pytest.raises(ModelLoadError, match="'width' is missing"):
        read.build(Sizes)
