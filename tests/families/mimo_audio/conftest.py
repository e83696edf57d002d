"""A tiny random checkpoint with its audio tokenizer, made once."""

from pathlib import Path

import pytest

from tests.families.mimo_audio.oracle.record import SEED
from tests.families.mimo_audio.random_checkpoint import make_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mimo_audio")
    make_checkpoint(path, seed=SEED)
    return path
