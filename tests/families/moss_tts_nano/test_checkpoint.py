"""What a checkpoint lacks is said before anything of it is run; and nothing is run unasked."""

import json
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.moss_tts_nano.checkpoint import inspect, read_checkpoint
from antiphon.families.moss_tts_nano.generator import MossGenerator
from antiphon.families.moss_tts_nano.prompt import MossPrompter
from antiphon.families.registry import checkpoint_family


@pytest.fixture
def copied(checkpoint: Path, tmp_path: Path) -> Path:
    return copytree(checkpoint, tmp_path / "copied")


def change(path: Path, **values: object) -> None:
    config = path / "config.json"
    told = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps(told | values), encoding="utf-8")


def test_the_family_is_known_by_its_architecture(checkpoint: Path) -> None:
    assert checkpoint_family(checkpoint).name == "moss_tts_nano"


@pytest.mark.parametrize("part", [MossPrompter, MossGenerator])
def test_its_code_is_not_run_unless_a_setting_says_so(
    part: type[MossPrompter] | type[MossGenerator], copied: Path
) -> None:
    trap = copied / "run"
    for source in copied.rglob("*.py"):
        source.write_text(f"open({str(trap)!r}, 'w').close()\n", encoding="utf-8")
    with pytest.raises(ModelLoadError, match=r"model\.trust_remote_code"):
        part(LoadContext(copied, device="cpu"))
    assert inspect(copied).problems == ()
    assert not trap.exists()


def test_voices_are_recordings_with_their_texts(checkpoint: Path) -> None:
    found = read_checkpoint(checkpoint)
    assert list(found.voices) == ["Ann", "Bob"]
    assert found.voices["Ann"].transcript is None
    assert found.voices["Bob"].transcript == "Another one."


def test_a_text_that_is_no_utf_8_is_told(copied: Path) -> None:
    (copied / "voices" / "Bob.txt").write_bytes("Grüße".encode("latin-1"))
    (problem,) = inspect(copied).problems
    assert "Bob.txt" in problem


def test_a_codec_may_lie_beside_its_model(copied: Path) -> None:
    (copied / "audio_tokenizer").rename(copied.parent / "MOSS-Audio-Tokenizer-Nano")
    assert read_checkpoint(copied).channels == 2
    rmtree(copied.parent / "MOSS-Audio-Tokenizer-Nano")
    (problem,) = inspect(copied).problems
    assert "MOSS-Audio-Tokenizer-Nano" in problem


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"auto_map": {}}, "auto_map.AutoModelForCausalLM"),
        ({"auto_map": {"AutoModelForCausalLM": "other--code.Model"}}, "another repository"),
        ({"auto_map": {"AutoModelForCausalLM": "gone.Model"}}, "gone.py"),
    ],
)
def test_code_that_is_not_here_is_refused(
    copied: Path, values: dict[str, object], named: str
) -> None:
    change(copied, **values)
    with pytest.raises(ModelLoadError, match=named):
        read_checkpoint(copied)


def test_a_model_without_weights_is_refused(copied: Path) -> None:
    (copied / "pytorch_model.bin").unlink()
    with pytest.raises(ModelLoadError, match="no weights"):
        read_checkpoint(copied)
