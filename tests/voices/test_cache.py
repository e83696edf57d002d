"""Prepared voices outlive the process, fit their model, and are made again when a file is bad."""

import errno
from pathlib import Path

import numpy as np
import pytest

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.voices.cache import PreparedCache, model_identity


def voice(value: float = 0.5, name: str = "Ann") -> PreparedVoice:
    return PreparedVoice(
        name=name, family="f", ref_text="One.", speaker_embedding=np.full(4, value, np.float32)
    )


def test_what_is_kept_is_found_again_by_any_process(tmp_path: Path) -> None:
    PreparedCache(tmp_path / "prepared").keep("c" * 64, "m" * 64, voice())
    cache = PreparedCache(tmp_path / "prepared")
    for name in ("Ann", "Bob"):
        found = cache.find("c" * 64, "m" * 64, name)
        assert found is not None
        assert (found.name, found.content_hash) == (name, voice().content_hash)
    assert cache.find("d" * 64, "m" * 64, "Ann") is None
    assert cache.find("c" * 64, "n" * 64, "Ann") is None


def test_memory_is_bounded_and_the_disk_knows_the_rest(tmp_path: Path) -> None:
    cache = PreparedCache(tmp_path, max_in_memory=2)
    for number in range(5):
        cache.keep(f"{number:064}", "m" * 64, voice(number))
    assert len(cache._recent) == 2
    for number in range(5):
        found = cache.find(f"{number:064}", "m" * 64, "Ann")
        assert found is not None
        assert found.content_hash == voice(number).content_hash
    assert len(cache._recent) == 2


def test_only_what_is_wanted_stays(tmp_path: Path) -> None:
    cache = PreparedCache(tmp_path)
    for content in ("a", "b"):
        for model in ("m" * 64, "n" * 64):
            cache.keep(content * 64, model, voice())
    cache.keep_only({"b" * 64})
    for reader in (cache, PreparedCache(tmp_path)):
        assert reader.find("a" * 64, "m" * 64, "Ann") is None
        assert reader.find("b" * 64, "n" * 64, "Ann") is not None
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"not such a file", b"\xff" * 100])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, damage: bytes) -> None:
    PreparedCache(tmp_path).keep("c" * 64, "m" * 64, voice())
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    assert PreparedCache(tmp_path).find("c" * 64, "m" * 64, "Ann") is None


def test_a_full_disk_costs_no_voice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PreparedVoice, "save", full)
    cache = PreparedCache(tmp_path)
    cache.keep("c" * 64, "m" * 64, voice())
    assert cache.find("c" * 64, "m" * 64, "Ann") is not None


def test_a_model_is_another_once_its_checkpoint_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "model.safetensors").write_bytes(b"1")
    seen = {model_identity("f", tmp_path), model_identity("g", tmp_path), model_identity("f", None)}
    assert model_identity("f", tmp_path) in seen
    (tmp_path / "config.json").write_text("[]")
    seen.add(model_identity("f", tmp_path))
    (tmp_path / "part" / "model.safetensors").write_bytes(b"12")
    seen.add(model_identity("f", tmp_path))
    assert len(seen) == 5
