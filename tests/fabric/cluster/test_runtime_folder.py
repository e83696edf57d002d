"""Folders of sockets: locked, removed when their server is gone, and not before."""

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from antiphon.fabric.cluster.runtime_folder import runtime_folder


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def abandon(parent: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="antiphon-", dir=parent))
    (folder / "lock").touch()
    return folder


def test_a_folder_is_private_and_gone_afterwards(parent: Path) -> None:
    abandoned = abandon(parent)
    with runtime_folder() as first, runtime_folder() as second:
        assert not abandoned.exists()
        assert [*parent.iterdir()] in ([first, second], [second, first])
        assert all(stat.S_IMODE(each.stat().st_mode) == 0o700 for each in (first, second))
    assert [*parent.iterdir()] == []


def test_a_server_that_starts_meanwhile_takes_no_folder_away(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock: Callable[[int, int], None] = fcntl.flock
    others = ExitStack()

    def start_another_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        others.enter_context(runtime_folder())
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", start_another_first)
    with others, runtime_folder() as folder:
        assert (folder / "lock").is_file()
        with runtime_folder():
            assert (folder / "lock").is_file(), "it is locked"


def test_what_is_not_ours_alone_is_left(
    parent: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    os.chmod(elsewhere, 0o700)
    (elsewhere / "lock").touch()
    (parent / "antiphon-link").symlink_to(elsewhere)
    shared = abandon(parent)
    shared.chmod(0o770)
    with runtime_folder():
        assert (elsewhere / "lock").exists()
        assert (shared / "lock").exists()
