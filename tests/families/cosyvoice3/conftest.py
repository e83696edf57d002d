"""Tiny checkpoints, made once."""

from pathlib import Path

import pytest

from tests.families.cosyvoice3.oracle.cases import CHECKPOINT_SEED
from tests.families.cosyvoice3.random_checkpoint import make_checkpoint


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that speaks with voices of recordings only."""
    path = tmp_path_factory.mktemp("cosyvoice3")
    make_checkpoint(path, seed=CHECKPOINT_SEED)
    return path


@pytest.fixture(scope="session")
def custom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cosyvoice3-custom")
    make_checkpoint(path, task="custom_voice")
    return path
