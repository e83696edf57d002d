"""Checkpoints of random weights that were recorded with the official package, and prompters."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from antiphon.families.qwen3_tts.config import CheckpointTask
from tests.families.qwen3_tts.parity import make_parity_checkpoint
from tests.families.qwen3_tts.prompter_desk import Desk


@pytest.fixture(scope="session")
def parity_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:

    @cache
    def make(name: str) -> Path:
        path = tmp_path_factory.mktemp(name)
        make_parity_checkpoint(path, name)
        return path

    return make


@pytest.fixture(scope="session")
def custom(checkpoint: Callable[..., Path]) -> Desk:
    return Desk(checkpoint("tiny", CheckpointTask.CUSTOM_VOICE))


@pytest.fixture(scope="session")
def custom_small(checkpoint: Callable[..., Path]) -> Desk:
    return Desk(checkpoint("tiny-0.6b", CheckpointTask.CUSTOM_VOICE))


@pytest.fixture(scope="session")
def design(checkpoint: Callable[..., Path]) -> Desk:
    return Desk(checkpoint("tiny", CheckpointTask.VOICE_DESIGN))


@pytest.fixture(scope="session")
def base(checkpoint: Callable[..., Path]) -> Desk:
    return Desk(checkpoint("tiny", CheckpointTask.BASE))


@pytest.fixture
def desk(request: pytest.FixtureRequest) -> Desk:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Desk)
    return found
