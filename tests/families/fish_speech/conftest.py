"""Tiny checkpoints of both layouts, made once."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.families.fish_speech.random_checkpoint import make_checkpoint


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directory of a tiny checkpoint by its task, ``s2`` or ``s1``; do not change it."""

    @cache
    def make(task: str) -> Path:
        path = tmp_path_factory.mktemp(f"fish-{task}")
        make_checkpoint(path, size="tiny", task=task)
        return path

    return make
