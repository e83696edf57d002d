"""A checkpoint is told as it is, and whatever is wrong with it, without its tensors being read."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from antiphon.contracts.inspection import Inspection
from antiphon.errors import how_to_install
from antiphon.families.qwen3_tts.checkpoint import inspect
from antiphon.families.qwen3_tts.config import CheckpointTask
from tests.families.qwen3_tts.random_checkpoint import Size, make_full_checkpoint

DEADLINE_S = 60


@pytest.fixture
def made(
    checkpoint: Callable[[Size, CheckpointTask], Path], tmp_path: Path
) -> Callable[[CheckpointTask], Path]:

    def copy(task: CheckpointTask) -> Path:
        return copytree(checkpoint("tiny", task), tmp_path / "made")

    return copy


def rows(found: Inspection, title: str) -> list[dict[str, Any]]:
    (table,) = (each for each in found.tables if each.title == title)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_a_checkpoint_with_voices_is_told(made: Callable[[CheckpointTask], Path]) -> None:
    path = made(CheckpointTask.CUSTOM_VOICE)
    found = inspect(path)
    assert found.problems == ()
    assert str(found.facts["Task"]).startswith("custom_voice")
    assert found.facts["Size"] == "1.7B"
    assert found.facts["Dialects"] == ("beijing_dialect", "sichuan_dialect")
    assert "english" in found.facts["Languages"]  # type: ignore[operator]
    assert "300 tokens" in str(found.facts["Tokenizer"])
    speaks = {row["Voice"]: row["Speaks"] for row in rows(found, "Voices")}
    assert (speaks["eric"], speaks["ryan"]) == ("sichuan_dialect", "any language")
    sizes = {row["File"]: row["Bytes"] for row in rows(found, "Files")}
    assert sizes == {
        file.relative_to(path).as_posix(): file.stat().st_size
        for file in path.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("task", CheckpointTask)
def test_components_are_the_whole_of_the_weights(
    made: Callable[[CheckpointTask], Path], task: CheckpointTask
) -> None:
    path = made(task)
    found = inspect(path)
    components = {row["Component"]: row for row in rows(found, "Components")}
    assert ("speaker encoder" in components) == (task is CheckpointTask.BASE)
    assert sum(row["Parameters"] for row in components.values()) == found.facts["Parameters"]
    stored = sum(file.stat().st_size for file in path.rglob("*.safetensors"))
    assert 0.99 * stored < sum(row["Bytes"] for row in components.values()) < stored


def test_shards_and_number_types_are_told(tmp_path: Path) -> None:
    make_full_checkpoint(tmp_path, size="tiny-0.6b", task="base", dtype="bfloat16", shards=3)
    found = inspect(tmp_path)
    assert found.problems == ()
    types = {row["Component"]: row["Type"] for row in rows(found, "Components")}
    assert (types["talker"], types["codec decoder"]) == ("BF16", "F32")


def spoil_main_configuration(path: Path) -> str:
    (path / "config.json").unlink()
    return "config.json"


def spoil_weights(path: Path) -> str:
    (path / "model.safetensors").unlink()
    return "neither model.safetensors nor"


def spoil_codec(path: Path) -> str:
    file = path / "speech_tokenizer" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    return "by its header"


def spoil_shapes(path: Path) -> str:
    config = json.loads((path / "config.json").read_text())
    config["talker_config"]["num_hidden_layers"] += 1
    (path / "config.json").write_text(json.dumps(config))
    return r"missing: talker\.model\.layers\.3"


def spoil_configuration(path: Path) -> str:
    (path / "speech_tokenizer" / "config.json").unlink()
    return r"speech_tokenizer.config\.json: cannot be read"


def spoil_tokenizer(path: Path) -> str:
    (path / "merges.txt").unlink()
    return r"merges\.txt"


def spoil_vocabulary(path: Path) -> str:
    (path / "vocab.json").unlink()
    return r"tokenizer\.json"


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_main_configuration,
        spoil_weights,
        spoil_codec,
        spoil_shapes,
        spoil_configuration,
        spoil_tokenizer,
        spoil_vocabulary,
    ],
)
def test_what_is_wrong_is_told_once_and_the_rest_all_the_same(
    made: Callable[[CheckpointTask], Path], spoil: Callable[[Path], str]
) -> None:
    path = made(CheckpointTask.BASE)
    message = spoil(path)
    found = inspect(path)
    assert len(found.problems) == 1
    assert re.search(message, found.problems[0])
    assert len(rows(found, "Components")) >= 2
    assert rows(found, "Files")


def test_neither_torch_nor_any_library_of_tensors_is_needed(
    checkpoint: Callable[[Size, CheckpointTask], Path],
) -> None:
    block = "import sys; sys.modules |= dict.fromkeys(('torch', 'safetensors', 'tokenizers'))"
    code = f"{block}; from antiphon.cli.main import app; app()"
    path = checkpoint("tiny", CheckpointTask.BASE)
    done = subprocess.run(
        [sys.executable, "-c", code, "models", "inspect", str(path), "--json"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["problems"] == [f"this model needs PyTorch: {how_to_install('torch')}"]
    assert told["parameters"] > 0
