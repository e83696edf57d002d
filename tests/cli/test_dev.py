"""``antiphon dev`` makes checkpoints that can be served, and says what it cannot make."""

import json
from pathlib import Path

import pytest

from antiphon.families import toy
from antiphon.families.registry import FAMILIES, family, resolve
from tests.cli.conftest import Run
from tests.families.whole_checkpoints import maker_of


def test_a_made_checkpoint_is_served_by_its_family(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "made"
    flags = ("--task", "voice_design", "--size", "tiny-0.6b", "--dtype", "bfloat16")
    done = run("dev", "make-checkpoint", str(path), *flags)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"Wrote {path}\n"
    family, found = resolve(str(path))
    assert (family.name, found) == ("qwen3_tts", path)
    assert not list(path.rglob("*.safetensors"))
    told = json.loads(run("models", "inspect", str(path), "--json").stdout)
    assert told["task"].startswith("voice_design")
    assert told["size"] == "0.6B"
    assert told["weights"].startswith("random")
    assert told["problems"] == []


def test_a_checkpoint_that_draws_is_made_and_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "made"
    done = run("dev", "make-checkpoint", str(path), "--family", "ovis_image")
    assert done.exit_code == 0, done.output
    told = json.loads(run("models", "inspect", str(path), "--json").stdout)
    assert told["family"] == "ovis_image"
    assert told["weights"].startswith("random")
    assert told["problems"] == []


def test_a_checkpoint_of_components_is_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "made"
    maker_of("ovis_image")(path, shards=2)
    told = json.loads(run("models", "inspect", str(path), "--json").stdout)
    assert told["family"] == "ovis_image"
    assert {row["component"] for row in told["components"]} == {
        "text_encoder",
        "transformer",
        "vae",
    }
    assert len(list((path / "transformer").glob("*.safetensors"))) == 2
    (path / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    broken = run("models", "inspect", str(path))
    assert broken.exit_code == 1
    assert "diffusion_pytorch_model" in broken.stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--family", "nobody"), "Unknown model 'nobody'"),
        (("--family", "toy"), "'toy' has no checkpoints"),
        (("--size", "huge"), "no size 'huge'"),
    ],
)
def test_what_cannot_be_made_is_said(
    run: Run, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    done = run("dev", "make-checkpoint", str(tmp_path / "made"), *flags)
    assert done.exit_code == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_family_that_makes_any_it_is_asked_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(FAMILIES, "qwen3_tts")
    done = run("dev", "make-checkpoint", str(tmp_path / "made"))
    assert done.exit_code == 1
    assert "--family" in done.stderr


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_default_task_is_the_first_of_the_family(name: str, tmp_path: Path) -> None:
    found = family(name).checkpoint_maker
    if found is None or not (tasks := found.resolve().tasks):
        return
    found.resolve()(tmp_path / "default")
    found.resolve()(tmp_path / "first", task=tasks[0])
    made = [
        {path.name: path.read_bytes() for path in folder.rglob("*.json")}
        for folder in (tmp_path / "default", tmp_path / "first")
    ]
    assert made[0] == made[1] != {}


def test_without_a_task_a_checkpoint_has_built_in_voices(run: Run, tmp_path: Path) -> None:
    assert run("dev", "make-checkpoint", str(tmp_path / "made")).exit_code == 0
    told = json.loads(run("models", "inspect", str(tmp_path / "made"), "--json").stdout)
    assert told["task"].startswith("custom_voice")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "there is no checkpoint"),
        (("a.gguf", "b.gguf"), "holds several GGUF files"),
        (("onnx/model.onnx", "voices/af_heart.bin"), "no config.json beside the ONNX network"),
        (("inner/config.json",), "Did you mean"),
    ],
)
def test_a_folder_without_a_checkpoint_is_named(
    run: Run, tmp_path: Path, files: tuple[str, ...], message: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    done = run("models", "inspect", str(tmp_path))
    assert done.exit_code == 1
    assert message in done.stderr
    assert "Errno" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "Unknown model 'nobody'"),
        (("ovis_image",), "'ovis_image' does not speak: its tasks are image."),
        (("toy", "--checkpoint", "no/such/folder"), "There is no directory"),
    ],
)
def test_what_cannot_be_checked_is_said(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("dev", "check-family", *arguments)
    assert done.exit_code == 1
    assert message in done.stderr


def test_every_family_is_counted(run: Run) -> None:
    told = {each["name"]: each for each in json.loads(run("dev", "families", "--json").stdout)}
    assert [*told] == [*FAMILIES]
    lines = [
        line
        for path in Path(toy.__file__).parent.glob("*.py")
        for line in path.read_text(encoding="utf-8").split("\n")
        if line.strip()
    ]
    assert told["toy"]["lines"] == len(lines)
    assert told["toy"]["tasks"] == ["speech", "image", "video", "chat"]
    assert "hibari" in run("dev", "families").stdout
