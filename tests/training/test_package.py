"""A trained voice becomes a distribution, whose wheel brings the model under its name."""

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from antiphon.families.qwen3_tts.sizes import make_checkpoint
from antiphon.families.registry import resolve
from antiphon_training.__main__ import main
from tests.test_wheel import built


def package(tmp_path: Path, name: str) -> Path:
    card = tmp_path / "card.md"
    card.write_text("# A voice\n", encoding="utf-8")
    more = ("--card", str(card), "--name", name, "--license", "Apache-2.0")
    main(["package", str(tmp_path / "voice"), *more, "--out", str(tmp_path / "package")])
    return tmp_path / "package"


@pytest.mark.slow  # builds a wheel
def test_an_installed_voice_is_served_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_checkpoint(tmp_path / "voice")
    wheel = built(package(tmp_path, "wagtail"), tmp_path)
    installed = tmp_path / "site"
    ZipFile(wheel).extractall(installed)
    monkeypatch.syspath_prepend(installed)
    family, path = resolve("wagtail")
    assert family.name == "qwen3_tts"
    assert path == installed / "antiphon_voice_wagtail" / "checkpoint"
    files = {file.relative_to(tmp_path / "voice") for file in (tmp_path / "voice").rglob("*.*")}
    assert files == {file.relative_to(path) for file in path.rglob("*.*")}
    sys.modules.pop("antiphon_voice_wagtail", None)


def test_a_name_is_part_of_a_module_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lower-case letters and digits, and 'My Voice' has"):
        package(tmp_path, "My Voice")
