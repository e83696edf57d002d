"""``antiphon dev`` makes checkpoints that can be served, and says what it cannot make."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from antiphon.cli.dev import dev
from antiphon.errors import ModelLoadError
from antiphon.models.registry import resolve

APP = typer.Typer()
APP.add_typer(dev, name="dev")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(APP, ["dev", "make-checkpoint", *arguments])


def test_a_made_checkpoint_is_resolved_to_its_family(tmp_path: Path) -> None:
    path = tmp_path / "made"
    result = run("qwen3_tts", str(path), "--task", "voice_design", "--shards", "2")
    assert result.exit_code == 0, result.output
    assert str(path) in result.output
    family, found = resolve(str(path))
    assert (family.name, found) == ("qwen3_tts", path)
    assert len(list(path.glob("*.safetensors"))) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "Unknown model 'nobody'"),
        (("toy",), "'toy' has no checkpoints"),
        (("qwen3_tts", "--size", "huge"), "no size 'huge'"),
    ],
)
def test_what_cannot_be_made_is_said(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    family, *options = arguments
    result = run(family, str(tmp_path / "made"), *options)
    assert isinstance(result.exception, ModelLoadError)
    assert message in result.exception.message
