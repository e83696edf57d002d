"""Parallel tests in forks: each test runs once, and failures and crashes are reported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ONE_FILE = """
import os, pytest

@pytest.fixture(scope="module")
def seen(): return []

def test_first(seen): seen.append(os.getpid())
def test_second(seen): assert seen == [os.getpid()]
def test_third(): print("a line before"); assert 1 == 2
"""
CRASH = (
    "import os\ndef test_passes(): pass\ndef test_crashes(): os._exit(9)\ndef test_later(): pass\n"
)


def run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    fixed = ("-rA", "-p", "tests.forks", "-p", "no:cacheprovider", "--import-mode=importlib")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *fixed, f"--rootdir={folder}", *options, str(folder)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # a second of imports
        check=False,
    )


@pytest.mark.slow
def test_each_file_runs_once_in_one_fork_and_failures_keep_their_output(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text(ONE_FILE)
    done = run(tmp_path, "--forks", "2")
    assert done.returncode == 1
    assert "3 failed, 6 passed" in done.stdout
    assert done.stdout.count("a line before\n") == 3


def test_a_crash_is_a_failure_of_its_test_and_other_files_run(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(CRASH)
    (tmp_path / "test_b.py").write_text("def test_passes(): pass\n")
    done = run(tmp_path, "--forks", "2")
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout
    assert "its process ended with 9" in done.stdout
    assert "test_a.py::test_crashes" in done.stdout


def test_without_failures_it_succeeds(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_1(): pass\ndef test_2(): pass\n")
    done = run(tmp_path, "--forks", "3", "--fork-tests")
    assert done.returncode == 0
    assert "2 passed" in done.stdout


def test_the_first_failure_ends_all_forks(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_1(): assert 0\ndef test_2(): pass\n")
    done = run(tmp_path, "--forks", "1", "-x")
    assert done.returncode == 1
    assert "1 failed in" in done.stdout
