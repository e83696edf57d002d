"""What is told of a voice without loading it."""

import json
import shutil
from pathlib import Path

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.checkpoint import inspect
from antiphon.families.causal_lm.omni.config import SPEAKERS, has_voice, load_omni_config

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")

from antiphon.families.causal_lm.omni.voices import load_voices  # noqa: E402


def test_a_voice_is_told_with_its_parts(speaking: Path) -> None:
    found = inspect(speaking)
    assert not found.problems
    assert found.facts["Voices"] == ("Chelsie", "Ethan")
    assert {row[0] for row in found.tables[0].rows} == {"language model", "talker", "token2wav"}
    assert sum(int(row[1]) for row in found.tables[0].rows) == found.facts["Parameters"]


def test_what_does_not_fit_is_named(speaking: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    shutil.copytree(speaking, path)
    config = json.loads((path / "config.json").read_text())
    config["talker_config"]["num_hidden_layers"] = 3
    (path / "config.json").write_text(json.dumps(config))
    torch.save({"Ethan": {"bos_token": 1}}, path / SPEAKERS)
    problems = " ".join(inspect(path).problems)
    assert "talker.model.layers.2" in problems
    assert "'Ethan' must have" in problems
    (path / SPEAKERS).write_bytes(b"no pickle")
    with pytest.raises(ModelLoadError, match="cannot be read"):
        load_voices(path, load_omni_config(path))
    for key, value in (("embedding_size", 7), ("tts_text_end_token_id", 10**6)):
        talker = config["talker_config"] | {key: value}
        (path / "config.json").write_text(json.dumps(config | {"talker_config": talker}))
        with pytest.raises(ModelLoadError, match=key):
            load_omni_config(path)


def test_a_voice_is_used_if_it_is_there_and_wanted(speaking: Path, tmp_path: Path) -> None:
    assert has_voice(speaking)
    config = json.loads((speaking / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert not has_voice(tmp_path), "there are no speakers"
    (tmp_path / SPEAKERS).touch()
    assert has_voice(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"enable_audio_output": False}))
    assert not has_voice(tmp_path)
