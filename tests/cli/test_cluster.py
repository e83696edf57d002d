"""``antiphon stage`` starts Ray as it should, and ``antiphon scale`` finds what is meant."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.cluster import _named
from antiphon.errors import SettingsError
from antiphon.fabric.cluster.base import StageView
from antiphon.fabric.cluster.ray_plan import OUTLIVE_HEAD
from tests.cli.conftest import Run


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Return what `antiphon stage` would become, instead of becoming it."""
    pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")
    calls: list[tuple[list[str], dict[str, str]]] = []

    def note(path: str, command: list[str], environment: dict[str, str]) -> None:
        assert path == sys.executable
        calls.append((command, environment))

    def no_token_to_make(command: list[str], **_: Any) -> None:
        assert "get-auth-token" in command

    monkeypatch.setattr(os, "execve", note)
    monkeypatch.setattr(subprocess, "run", no_token_to_make)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    return calls


def test_a_host_joins_with_what_it_has_to_offer(
    run: Run, started: list[tuple[list[str], dict[str, str]]]
) -> None:
    address = ("--node-ip-address", "10.0.0.7")
    labels = ("--label", "gpu=h200", "--label", "rack=7")
    assert run("stage", "--address", "head:6379", "--gpus", "2", *address, *labels).exit_code == 0
    [(command, environment)] = started
    assert command[3:] == [
        *("start", "--block", "--address=head:6379"),
        *("--num-gpus=2", "--node-ip-address=10.0.0.7", "--labels=gpu=h200,rack=7"),
    ]
    assert environment["RAY_AUTH_MODE"] == "token", "never open to everybody by accident"
    assert environment.items() >= OUTLIVE_HEAD.items()


def test_a_head_has_no_dashboard_and_tells_nobody(
    run: Run, started: list[tuple[list[str], dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert run("stage", "--head", "--port", "7000", "--cpus", "4").exit_code == 0
    [(command, environment)] = started
    assert command[3:] == [
        *("start", "--block", "--head", "--port=7000"),
        *("--include-dashboard=false", "--disable-usage-stats", "--num-cpus=4"),
    ]
    assert environment["RAY_AUTH_MODE"] == "disabled", "whoever says so has said so"


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--head", "--address", "head:6379"),
        ("--head", "--label", "gpu"),
        ("--head", "--label", "a=b,c"),
    ],
)
def test_wrong_flags_are_refused(
    run: Run, started: list[tuple[list[str], dict[str, str]]], wrong: tuple[str, ...]
) -> None:
    done = run("stage", *wrong)
    assert done.exit_code == 1
    assert "--" in done.stderr
    assert not started


def test_scale_wants_a_stage_and_a_number(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = run("scale", "talker")
    assert done.exit_code == 1
    assert "both a stage and the number" in done.stderr


def summary(id: str, name: str) -> StageView:
    return StageView(id=id, name=name)


def test_a_stage_is_meant_by_its_id_its_name_or_a_part_of_it() -> None:
    fused, encoder = summary("talker+codec-1", "talker+codec"), summary("encoder-2", "encoder")
    for name in ("talker", "codec", "talker+codec", "talker+codec-1"):
        assert _named(name, (fused, encoder)) is fused
    with pytest.raises(SettingsError, match="No stage is called 'vocoder'"):
        _named("vocoder", (fused, encoder))
    other = summary("talker-3", "talker")
    with pytest.raises(SettingsError, match=r"Several stages.*talker\+codec-1, talker-3"):
        _named("talker", (fused, other))
