"""Random weights that are kept are made once, and never found half made."""

from pathlib import Path

import pytest

from antiphon.errors import ModelLoadError
from antiphon_bench.kept_model import kept_checkpoint


class Told:
    """Counts what is told of the writing of files."""

    def __init__(self, end_at: int | None = None) -> None:
        self.num_calls = 0
        self._end_at = end_at

    def __call__(self, part: str, num_done: int, num_all: int) -> None:
        self.num_calls += 1
        if self.num_calls == self._end_at:
            raise KeyboardInterrupt


def test_a_second_call_finds_what_the_first_has_made(tmp_path: Path) -> None:
    first, second = Told(), Told()
    made = kept_checkpoint(tmp_path / "kept", "tiny", "custom_voice", progress=first)
    weights = made / "model.safetensors"
    written = weights.stat()
    assert kept_checkpoint(tmp_path / "kept", "tiny", "custom_voice", progress=second) == made
    assert (first.num_calls > 0, second.num_calls) == (True, 0)
    assert weights.stat() == written


def test_families_sizes_and_tasks_have_folders_of_their_own(tmp_path: Path) -> None:
    wanted = [
        (None, "tiny", "custom_voice"),
        (None, "tiny", "base"),
        (None, "tiny-0.6b", "base"),
        ("voxcpm2", "tiny", "custom_voice"),
    ]
    made = {
        kept_checkpoint(tmp_path, size, task, progress=Told(), of_family=family)
        for family, size, task in wanted
    }
    assert {each.parent for each in made} == {tmp_path}
    assert len(made) == len(wanted)
    assert {each.name for each in tmp_path.iterdir() if each.is_dir()} == {
        each.name for each in made
    }


def test_what_was_interrupted_is_made_anew(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        kept_checkpoint(tmp_path, "tiny", "custom_voice", progress=Told(end_at=1))
    assert not [each for each in tmp_path.iterdir() if each.is_dir()]
    killed = tmp_path / "qwen3_tts-tiny-custom_voice.part"  # nobody was left to remove it
    killed.mkdir()
    (killed / "half").write_bytes(b"half")
    made = kept_checkpoint(tmp_path, "tiny", "custom_voice", progress=Told())
    assert [each for each in tmp_path.iterdir() if each.is_dir()] == [made]
    assert not (made / "half").exists()


def test_what_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="no such size"):
        kept_checkpoint(tmp_path, "no such size", "custom_voice", progress=Told())
    assert not [each for each in tmp_path.iterdir() if each.is_dir()]
