"""`antiphon models pull` shows size and licence, then downloads what a model needs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon.families.kit import hub
from tests.cli.conftest import DEADLINE_S, Run
from tests.fake_hub import COMMIT, fake_hub
from tests.families.qwen3_tts.random_checkpoint import write_all_but_weights

CARD = {"license": "other", "license_name": "acme-research", "license_link": "https://acme.example"}


def test_a_checkpoint_is_shown_then_downloaded(tmp_path: Path) -> None:
    source, home = tmp_path / "source", tmp_path / "home"
    write_all_but_weights(source, size="tiny", task="custom_voice", dtype="float32")
    (source / "model.safetensors").write_bytes(bytes(3_000_000))
    (source / "notes.pdf").write_bytes(bytes(9_000_000))  # which no model needs
    with fake_hub(source, "acme/voice", CARD) as address:
        environment = os.environ | {"HF_ENDPOINT": address, "HF_HOME": str(home)}

        done = subprocess.run(
            (sys.executable, "-m", "antiphon", "models", "pull", "acme/voice"),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        path = Path(done.stdout.strip())
        assert path.name == COMMIT
        assert path.is_relative_to(home)
        for file in source.rglob("*.*"):
            assert (path / file.relative_to(source)).exists() == (file.suffix != ".pdf")
        before, _, after = done.stderr.partition("Fetching")
        assert "acme-research, https://acme.example" in before
        assert "Size      3.0 MB" in before
        assert "antiphon serve acme/voice" in after


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Have the hub hold one file of a size; return the list of the functions that are called."""

    def hold(num_bytes: int = 10, *, gated: bool = False, card: Any = None) -> list[str]:
        called: list[str] = []
        file = SimpleNamespace(commit_hash=COMMIT, file_size=num_bytes, will_download=True)

        def ask_hub(model: str, function: str, **arguments: Any) -> Any:
            called.append(function)
            if function == "model_info":
                return SimpleNamespace(card_data=card, gated=gated)
            assert arguments["dry_run"], "nothing is to be downloaded"
            return [file] if num_bytes else []

        monkeypatch.setattr(hub, "ask_hub", ask_hub)
        return called

    return hold


@pytest.mark.parametrize(
    ("card", "gated", "shown"),
    [
        (None, False, "not stated"),
        ({"license": "apache-2.0"}, False, "apache-2.0\n"),
        ({"license": ["mit", "cc-by-4.0"]}, False, "mit, cc-by-4.0\n"),
        ({"license": "other"}, "manual", "not stated, its terms must be accepted on the hub"),
    ],
)
def test_the_licence_is_the_card_s(
    run: Run, files: Callable[..., list[str]], card: Any, gated: Any, shown: str
) -> None:
    files(card=card, gated=gated)
    done = run("models", "pull", "acme/voice", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert f"Licence   {shown}" in done.stderr


def test_what_does_not_fit_is_not_downloaded(
    run: Run, files: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = files(5 * 10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    done = run("models", "pull", "acme/voice", "-y")
    assert done.exit_code == 1
    assert "5.00 GB" in done.stderr.splitlines()[-1]
    assert len(called) == 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("voice", "no ORG/NAME of the hub"),
        (".", "a directory here"),
        ("acme/empty", "none of the files"),
    ],
)
def test_what_is_no_checkpoint_is_refused(
    run: Run, files: Callable[..., list[str]], model: str, message: str
) -> None:
    files(0)
    done = run("models", "pull", model)
    assert done.exit_code == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
