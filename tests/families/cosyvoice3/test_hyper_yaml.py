"""The configuration is read as data, whatever a file asks for."""

from pathlib import Path

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.cosyvoice3.hyper_yaml import read_hyper_yaml


def read(tmp_path: Path, text: str) -> dict[str, object]:
    file = tmp_path / "cosyvoice3.yaml"
    file.write_text(text, encoding="utf-8")
    return dict(read_hyper_yaml(file).values)


def test_tags_are_dropped_and_references_are_resolved(tmp_path: Path) -> None:
    marker = tmp_path / "called"
    text = f"""
__seed: !apply:os.mkdir ["{marker}"]
size: 25
ratio: 2
flow: !new:module.Flow
    chunk: !ref <size> * <ratio>
    same: !ref <size>
    unknown: !ref <nothing>
    params: !new:other.Config
        content: {{rate: 0.7}}
    sampling: !name:some.function
        top_p: 0.8
    list: [!ref <ratio>, 3]
get: !name:module.function
"""
    values = read(tmp_path, text)
    assert not marker.exists()
    assert values["flow"] == {
        "chunk": 50,
        "same": 25,
        "unknown": None,
        "params": {"content": {"rate": 0.7}},
        "sampling": {"top_p": 0.8},
        "list": [2, 3],
    }
    assert values["get"] is None


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system ['true']",
        "a: [1",
        "- 1",
        "",
        "a: &x [1]\nb: [*x, *x]",
        "[" * 1200,
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ModelLoadError, match=r"cosyvoice3\.yaml"):
        read(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="cannot be read"):
        read_hyper_yaml(tmp_path / "cosyvoice3.yaml")
