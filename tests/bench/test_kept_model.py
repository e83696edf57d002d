"""Random weights that are kept are made once, and never found half made."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.kit.random_checkpoint import has_drawn_weights
from antiphon_bench import kept_model
from antiphon_bench.kept_model import kept_checkpoint
from tests.bench.peer import files_of


def test_a_second_call_finds_what_the_first_has_made(tmp_path: Path) -> None:
    made = kept_checkpoint(tmp_path / "kept", "tiny", "custom_voice")
    written = {each: each.stat() for each in made.iterdir()}
    assert made / "config.json" in written
    assert kept_checkpoint(tmp_path / "kept", "tiny", "custom_voice") == made
    assert {each: each.stat() for each in made.iterdir()} == written


def test_families_sizes_and_tasks_have_folders_of_their_own(tmp_path: Path) -> None:
    wanted = [
        (None, "tiny", "custom_voice"),
        (None, "tiny", "base"),
        (None, "tiny-0.6b", "base"),
        ("voxcpm2", "tiny", "custom_voice"),
    ]
    made = {
        kept_checkpoint(tmp_path, size, task, of_family=family) for family, size, task in wanted
    }
    assert {each.parent for each in made} == {tmp_path}
    assert len(made) == len(wanted)
    assert {each.name for each in tmp_path.iterdir() if each.is_dir()} == {
        each.name for each in made
    }


@contextmanager
def interrupted(*_: str, parent: Path, **__: object) -> Iterator[Path]:
    (parent / "half").write_bytes(b"half")
    raise KeyboardInterrupt
    yield parent


def test_what_was_interrupted_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(kept_model, "random_checkpoint", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kept_checkpoint(tmp_path, "tiny", "custom_voice")
    assert not [each for each in tmp_path.iterdir() if each.is_dir()]
    killed = tmp_path / "qwen3_tts-tiny-custom_voice.part"  # nobody was left to remove it
    killed.mkdir()
    (killed / "half").write_bytes(b"half")
    made = kept_checkpoint(tmp_path, "tiny", "custom_voice")
    assert [each for each in tmp_path.iterdir() if each.is_dir()] == [made]
    assert not (made / "half").exists()


def test_what_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="no such size"):
        kept_checkpoint(tmp_path, "no such size", "custom_voice")
    assert not [each for each in tmp_path.iterdir() if each.is_dir()]


def test_programs_that_cannot_draw_weights_are_given_files(tmp_path: Path) -> None:
    given = Namespace(random_dir=tmp_path, size="tiny")
    made = files_of(given, "voxcpm2", "custom_voice")
    assert not has_drawn_weights(made)
    weights = (made / "model.safetensors").stat().st_mtime_ns
    assert files_of(given, "voxcpm2", "custom_voice") == made
    assert (made / "model.safetensors").stat().st_mtime_ns == weights, "it was made once"
