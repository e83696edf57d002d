"""Ids of the hub lead to directories, and every way to fail is told in a line; no network."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import huggingface_hub
import pytest
from huggingface_hub import errors

from antiphon.errors import ModelLoadError
from antiphon.families.kit.hub import download, is_hub_id
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.registry import FAMILIES, resolve, served_name
from tests.families.qwen3_tts.random_checkpoint import write_all_but_weights

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DEADLINE_S = 60


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint that can be resolved, without its weights."""
    path = tmp_path / COMMIT
    write_all_but_weights(path, size="tiny", task=CheckpointTask.CUSTOM_VOICE, dtype="float32")
    return path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | Exception], list[dict[str, Any]]]:
    """Let downloads give a directory, or raise; return the list of what was asked for."""

    def answer(outcome: Path | Exception) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = []

        def snapshot_download(repo_id: str, **arguments: Any) -> str:
            asked.append({"repo_id": repo_id, **arguments})
            if isinstance(outcome, Exception):
                raise outcome
            return str(outcome)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        return asked

    return answer


@pytest.mark.parametrize(
    ("model", "repository", "revision"),
    [
        ("some-org/A.model-1", "some-org/A.model-1", None),
        ("org/name@v1.0", "org/name", "v1.0"),
        ("org/name@refs/pr/3", "org/name", "refs/pr/3"),
    ],
)
def test_an_id_is_downloaded_and_served_by_its_family(
    hub: Callable[[Path], list[dict[str, Any]]],
    checkpoint: Path,
    model: str,
    repository: str,
    revision: str | None,
) -> None:
    asked = hub(checkpoint)
    family, path = resolve(model)
    assert (family.name, path) == ("qwen3_tts", checkpoint)
    assert [(each["repo_id"], each["revision"]) for each in asked] == [(repository, revision)]
    assert served_name(model) == repository.rpartition("/")[2]


@pytest.mark.parametrize("model", ["/org/name", "./org/name", "org/", "a/b/c", "org", "~/name"])
def test_paths_are_no_ids(model: str) -> None:
    assert not is_hub_id(model)
    with pytest.raises(ModelLoadError, match=r"no directory|Unknown model"):
        resolve(model)


def test_directories_and_families_come_first(
    hub: Callable[[Exception], list[dict[str, Any]]],
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = hub(AssertionError("nothing is to be downloaded"))
    monkeypatch.chdir(checkpoint.parent.parent)
    model = f"{checkpoint.parent.name}/{checkpoint.name}"
    assert is_hub_id(model)
    assert resolve(model)[1] == Path(model)
    assert served_name(model) == checkpoint.name
    for family in ("toy", "hibari"):
        assert resolve(family)[1] is None
        assert served_name(family) == family
    assert served_name(None) in FAMILIES
    assert not asked


def refused(kind: type[errors.HfHubHTTPError], status: int) -> errors.HfHubHTTPError:
    request = httpx.Request("GET", "https://example.org")
    response: Any = httpx.Response(status, request=request)
    return kind("refused", response=response)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (refused(errors.RepositoryNotFoundError, 404), "no such model"),
        (refused(errors.GatedRepoError, 403), "is gated"),
        (refused(errors.RevisionNotFoundError, 404), "no such revision"),
        (refused(errors.HfHubHTTPError, 500), "cannot be fetched .*: refused"),
        (errors.LocalEntryNotFoundError("first\nsecond"), "cannot be reached"),
        (errors.OfflineModeIsEnabled("offline"), "cannot be reached"),
        (OSError(28, "No space left on device"), "No space left"),
        (errors.HFValidationError("a bad name"), "a bad name"),
    ],
)
def test_a_failure_is_told_in_one_line(
    hub: Callable[[Exception], object], error: Exception, message: str
) -> None:
    hub(error)
    with pytest.raises(ModelLoadError, match=message) as told:
        download("org/name", ())
    assert "'org/name'" in told.value.message
    assert "\n" not in told.value.message


def test_without_the_hubs_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelLoadError, match="scripts/setup torch"):
        download("org/name", ())


def test_what_was_downloaded_once_is_served_offline(checkpoint: Path, tmp_path: Path) -> None:
    repository = tmp_path / "home" / "hub" / "models--org--name"
    shutil.copytree(checkpoint, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    environment = os.environ | {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    command = (sys.executable, "-m", "antiphon", "voices", "--json", "--model", "org/name")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "serena" in [voice["id"] for voice in json.loads(done.stdout)]
