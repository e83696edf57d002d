"""What is wrong with a checkpoint is told before it is loaded, and when it is."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.cosyvoice3.checkpoint import inspect
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.decoder import load_decoder
from antiphon.families.cosyvoice3.voices import load_voices
from antiphon.families.registry import checkpoint_family


@pytest.fixture
def path(custom: Path, tmp_path: Path) -> Path:
    shutil.copytree(custom, tmp_path, dirs_exist_ok=True)
    return tmp_path


def change(file: Path, how: Callable[[dict[str, Any]], object]) -> None:
    values = torch.load(file, weights_only=True)
    how(values)
    torch.save(values, file)


def test_a_whole_checkpoint_has_no_problems(custom: Path) -> None:
    found = inspect(custom)
    assert found.problems == ()
    assert found.facts["Voices"] == ("random",)
    assert found.facts["Clones voices"] == "yes"
    assert [row[0] for row in found.tables[0].rows] == ["llm.pt", "flow.pt", "hift.pt"]
    assert checkpoint_family(custom).name == "cosyvoice3"


@pytest.mark.parametrize("text", ["{}", '{"model_type": "cosyvoice3"}'])
def test_it_is_known_by_its_files(path: Path, text: str) -> None:
    (path / "config.json").write_text(text)
    assert checkpoint_family(path).name == "cosyvoice3"
    (path / "cosyvoice3.yaml").unlink()
    with pytest.raises(ModelLoadError, match=r"config\.json|no family"):
        checkpoint_family(path)


@pytest.mark.parametrize(
    ("name", "how", "told"),
    [
        ("flow.pt", lambda values: values.popitem(), "missing: decoder.estimator"),
        ("hift.pt", lambda values: values.update(more=torch.ones(1)), "not part of such a model"),
        ("llm.pt", lambda values: values.update(llm_decoder=1), None),
        (
            "hift.pt",
            lambda values: values.update({"conv_pre.bias": torch.ones(3)}),
            "of another shape",
        ),
        ("flow.pt", lambda values: values.update(odd=torch.ones(1, dtype=torch.int64)), "odd"),
    ],
)
def test_tensors_are_accounted_for(
    path: Path, name: str, how: Callable[[dict[str, Any]], object], told: str | None
) -> None:
    change(path / name, how)
    problems = inspect(path).problems
    assert [told in each for each in problems] == [True] if told else problems == ()


def test_names_of_training_are_understood(path: Path) -> None:
    weights = torch.load(path / "hift.pt", weights_only=True)
    renamed = {f"generator.{name}": each for name, each in weights.items()}
    torch.save(renamed | {"discriminator.x": torch.ones(1)}, path / "hift.pt")
    assert inspect(path).problems == ()
    load_decoder(LoadContext(path, device="cpu"))


def test_code_in_a_file_is_not_run(path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (path.joinpath("trapped").touch, ())

    torch.save({"speaker": Trap()}, path / "spk2info.pt")
    assert len(inspect(path).problems) == 1
    with pytest.raises(ModelLoadError, match="cannot be read"):
        load_voices(path, load_config(path))
    assert not (path / "trapped").exists()


@pytest.mark.parametrize(
    "voice",
    [
        {"embedding": torch.ones(1, 5)},
        {"embedding": torch.full((1, 192), torch.nan)},
        {
            "flow_embedding": torch.ones(1, 192),
            "flow_prompt_speech_token": torch.tensor([[1, 2]]),
            "prompt_speech_feat": torch.ones(1, 3, 80),
        },
        {"embedding": torch.ones(1, 192), "prompt_text": torch.tensor([[9999]])},
        5,
    ],
)
def test_wrong_voices_are_refused(path: Path, voice: Any) -> None:
    torch.save({"ann": voice}, path / "spk2info.pt")
    with pytest.raises(ModelLoadError, match=r"spk2info\.pt"):
        load_voices(path, load_config(path))


def test_a_saved_voice_is_read(path: Path) -> None:
    told = {
        "flow_embedding": torch.ones(1, 192),
        "flow_prompt_speech_token": torch.tensor([[1, 2]], dtype=torch.int32),
        "prompt_speech_feat": torch.ones(1, 4, 80),
        "prompt_text": torch.tensor([[3, 4, 5]], dtype=torch.int32),
        "prompt_text_len": torch.tensor([3]),
    }
    torch.save({"ann": told}, path / "spk2info.pt")
    voice = load_voices(path, load_config(path))["ann"]
    assert voice.tokens.tolist() == [1, 2]
    assert voice.mel.shape == (4, 80)
    assert voice.text_ids == (3, 4, 5)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("vocab_size: 6561", "vocab_size: 6560", "differ"),
        ("hop_len: 4", "hop_len: 5", "50 mel frames"),
        ("pre_lookahead_len: 3", "pre_lookahead_len: 2", "must be 3"),
        ("solver: 'euler'", "solver: 'midpoint'", "solver"),
        ("sampling_rate: !ref <sample_rate>", "", "sampling_rate"),
        ("[3, 7, 11]", "[3, 7]", "different lengths"),
    ],
)
def test_configurations_are_checked(path: Path, old: str, new: str, told: str) -> None:
    file = path / "cosyvoice3.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1 if "lookahead" in old else -1))
    with pytest.raises(ModelLoadError, match=told):
        load_config(path)
