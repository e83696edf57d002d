"""`antiphon models inspect` tells what a checkpoint is; its status tells whether it can serve."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.errors import how_to_install
from antiphon.families.registry import FAMILIES
from tests.cli.conftest import Run
from tests.families.causal_lm.gguf_files import packed
from tests.families.qwen3_tts.random_checkpoint import make_full_checkpoint
from tests.families.whole_checkpoints import maker_of

NEEDS_TORCH = f"this model needs PyTorch: {how_to_install('torch')}"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    make_full_checkpoint(path, size="tiny", task="custom_voice")
    return path


def test_people_and_programs_are_told_the_same(run: Run, checkpoint: Path) -> None:
    done = run("models", "inspect", str(checkpoint))
    assert done.exit_code == 0, done.output
    told = json.loads(run("models", "inspect", str(checkpoint), "--json").stdout)
    assert told["problems"] == []
    shown = done.stdout
    assert told["family"] in shown
    assert f"{told['parameters']:,}" in shown
    for part in told["components"]:
        assert f"{part['component']} " in shown
        assert f"{part['bytes']:,}" in shown
    assert all(voice["voice"] in shown for voice in told["voices"])
    assert all(file["file"] in shown for file in told["files"])
    assert "Can be served  yes" in shown


def test_what_is_missing_is_told(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((checkpoint / "config.json").read_bytes())
    done = run("models", "inspect", str(tmp_path))
    assert done.exit_code == 1
    assert "Can be served  no" in done.stdout
    assert "model.safetensors" in done.stdout
    assert done.stderr == ""


def test_without_torch_a_checkpoint_is_told_but_not_served(
    run: Run, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run("models", "inspect", str(checkpoint), "--json")
    assert (done.exit_code, json.loads(done.stdout)["problems"]) == (1, [NEEDS_TORCH])
    for command in (("serve", str(checkpoint)), ("say", "Hello.", "--model", str(checkpoint))):
        done = run(*command)
        assert (done.exit_code, done.stderr) == (1, f"antiphon: {NEEDS_TORCH}\n")


_WITHOUT_TORCH = """
import sys
sys.modules |= dict.fromkeys(("torch", "tokenizers", "safetensors"))
from antiphon.cli.main import app
app(["models", "inspect", sys.argv[1]])
"""


@pytest.mark.parametrize("kind", ["gguf", "cosyvoice3"])
def test_what_cannot_even_be_told_without_torch_is_one_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    if kind == "gguf":
        path.write_bytes(packed({"general.architecture": "llama"}, []))
    else:
        maker_of(kind)(path, size="tiny", task="base")
    command = [sys.executable, "-c", _WITHOUT_TORCH, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"antiphon: {NEEDS_TORCH}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "config.json"),
        ({"architectures": ["Nobody"]}, "no family serves ['Nobody']"),
        ({"architectures": ["Untold"]}, "checkpoints of 'untold' cannot be inspected"),
    ],
)
def test_a_folder_of_something_else_is_refused(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: dict[str, list[str]] | None,
    message: str,
) -> None:
    monkeypatch.setitem(FAMILIES, "untold", "tests.cli.untold:FAMILY")
    if content is not None:
        (tmp_path / "config.json").write_text(json.dumps(content))
    done = run("models", "inspect", str(tmp_path))
    assert done.exit_code == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_directory_is_told(run: Run) -> None:
    done = run("models", "inspect", "no/such/place")
    assert (done.exit_code, done.stderr) == (
        1,
        "antiphon: There is no directory 'no/such/place'.\n",
    )
