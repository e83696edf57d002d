"""Tiny checkpoints of random weights, each made once for all tests here."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
import torch

from antiphon.models.qwen3_tts.config import Task
from antiphon.models.qwen3_tts.random_checkpoint import make_checkpoint
from antiphon.models.qwen3_tts.random_configs import Size
from tests.models.qwen3_tts.parity import make_parity_checkpoint

Checkpoint: TypeAlias = Callable[[Size, Task], Path]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tiny products are slower on several cores, much slower where other programs run too."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Return the directory of a checkpoint of this size and task."""

    @cache
    def make(size: Size, task: Task) -> Path:
        path = tmp_path_factory.mktemp(f"{size}-{task}")
        make_checkpoint(path, size=size, task=task)
        return path

    return make


@pytest.fixture(scope="session")
def parity_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directory of a checkpoint by its name in `oracle.cases.CHECKPOINTS`."""

    @cache
    def make(name: str) -> Path:
        path = tmp_path_factory.mktemp(name)
        make_parity_checkpoint(path, name)
        return path

    return make
