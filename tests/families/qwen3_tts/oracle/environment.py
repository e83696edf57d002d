"""Where the official package is: an environment that is made once, the first time it is needed."""

import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

DIRECTORY = Path(__file__).parents[4] / ".venv-oracle"
_SETUP = Path(__file__).with_name("setup_oracle.py")
_NO_REGISTRY = ("connection broken by", "ReadTimeoutError", "ConnectTimeoutError")


def oracle_environment() -> Path:
    """Return the environment that ``QWEN3_TTS_ORACLE`` names, or our own.

    Ours is made if it is missing, cut short, or made by another version of its script. A test that
    asks for it is skipped where no package registry can be reached.
    """
    if given := os.environ.get("QWEN3_TTS_ORACLE"):
        return Path(given)
    stamp = DIRECTORY / ".complete"
    wanted = f"{DIRECTORY} {sys.version} {zlib.crc32(_SETUP.read_bytes())}"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        _make()
        stamp.write_text(wanted, encoding="utf-8")
    return DIRECTORY


def _make() -> None:
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, _SETUP, DIRECTORY], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return
    for line in done.stderr.splitlines():
        if any(sign in line for sign in _NO_REGISTRY):
            pytest.skip(f"the package registry cannot be reached: {line}")
    pytest.fail(f"the official package cannot be installed: {done.stderr}")
