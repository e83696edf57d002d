"""Both layouts are known by what they hold; what is missing is said."""

import json
import shutil
from pathlib import Path

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.kit.random_checkpoint import DRAWN_FILE
from antiphon.families.kokoro.checkpoint import load_config, read_checkpoint
from antiphon.families.kokoro.sizes import VOICES
from antiphon.families.kokoro.sizes import make_checkpoint as without_weights
from antiphon.families.kokoro.torch_network import build_model
from antiphon.families.kokoro.voices import inspect
from antiphon.families.registry import checkpoint_family
from tests.families.kokoro.random_vocabulary import VOCABULARY


def test_both_layouts_are_found(official: Path, exported: Path) -> None:
    for path in (official, exported):
        assert checkpoint_family(path).name == "kokoro"
        found = read_checkpoint(path)
        assert {**found.vocabulary, "$": 0} == {**VOCABULARY, "$": 0}
        assert tuple(found.voices) == tuple(sorted(VOICES))
        assert not inspect(path).problems
    assert read_checkpoint(official).network is None
    assert read_checkpoint(exported).weights is None


def test_a_voice_that_needs_no_pytorch_goes_first(official: Path, tmp_path: Path) -> None:
    shutil.copytree(official, tmp_path, dirs_exist_ok=True)
    (tmp_path / "voices" / "af_sky.bin").write_bytes(b"\0" * 1024)
    voices = read_checkpoint(tmp_path).voices
    assert voices["af_sky"].suffix == ".bin"
    assert voices["af_heart"].suffix == ".pt"


@pytest.mark.parametrize("gone", ["kokoro-v1_0.pth", "voices", "config.json"])
def test_what_is_missing_is_said(official: Path, tmp_path: Path, gone: str) -> None:
    shutil.copytree(official, tmp_path, dirs_exist_ok=True)
    lost = tmp_path / gone
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    with pytest.raises(ModelLoadError, match=gone.removeprefix("kokoro-v1_0")):
        read_checkpoint(tmp_path)
    assert inspect(tmp_path).problems


def test_other_phonemes_are_refused(official: Path, tmp_path: Path) -> None:
    shutil.copytree(official, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["vocab"]["ㄅ"] = 30
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelLoadError, match=r"v1\.1"):
        read_checkpoint(tmp_path)


def test_a_voice_that_nobody_could_name_is_refused(official: Path, tmp_path: Path) -> None:
    shutil.copytree(official, tmp_path, dirs_exist_ok=True)
    (tmp_path / "voices" / "af-mine.bin").write_bytes(b"\0" * 1024)
    with pytest.raises(ModelLoadError, match="af-mine"):
        read_checkpoint(tmp_path)
    assert inspect(tmp_path).problems


@pytest.mark.parametrize("size", [0, 1000])
def test_a_cut_voice_is_refused(exported: Path, tmp_path: Path, size: int) -> None:
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    (tmp_path / "voices" / "af_sky.bin").write_bytes(b"\0" * size)
    with pytest.raises(ModelLoadError, match="af_sky"):
        read_checkpoint(tmp_path)
    assert inspect(tmp_path).problems


def test_phonemes_that_the_network_does_not_have_are_refused(
    official: Path, tmp_path: Path
) -> None:
    shutil.copytree(official, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["vocab"]["a"] = config["n_token"]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelLoadError, match="n_token"):
        read_checkpoint(tmp_path)


def test_a_checkpoint_without_weights_is_whole_if_it_was_made_so(tmp_path: Path) -> None:
    without_weights(tmp_path)
    assert not inspect(tmp_path).problems
    assert "random" in str(inspect(tmp_path).facts["Weights"])
    (tmp_path / DRAWN_FILE).unlink()
    assert "neither a *.pth" in inspect(tmp_path).problems[0]


def test_drawn_weights_have_the_sizes_of_the_configuration(tmp_path: Path) -> None:
    without_weights(tmp_path)
    channels, skipped = load_config(tmp_path).decoder_channels
    weights = build_model(tmp_path, None).state_dict()
    assert len(weights["decoder.encode.conv1.weight"]) == channels
    assert len(weights["decoder.asr_res.0.weight"]) == skipped
    assert all(tensor.isfinite().all() for tensor in weights.values())
