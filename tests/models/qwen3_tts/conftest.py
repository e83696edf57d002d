"""Checkpoints of random weights that were recorded with the official package."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.models.qwen3_tts.parity import make_parity_checkpoint


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tiny products are slower on several cores, much slower where other programs run too."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def parity_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directory of a checkpoint by its name in `oracle.cases.CHECKPOINTS`."""

    @cache
    def make(name: str) -> Path:
        path = tmp_path_factory.mktemp(name)
        make_parity_checkpoint(path, name)
        return path

    return make
