"""A checkpoint of random weights, and what is loaded from it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.families.glm_image.prior import PriorRunner, load_prior
from antiphon.families.glm_image.prompt import GlmImagePrompter


@pytest.fixture(scope="session")
def checkpoint(drawing_checkpoint: Callable[..., Path]) -> Path:
    return drawing_checkpoint("glm_image")


@pytest.fixture(scope="session")
def context(checkpoint: Path) -> LoadContext:
    return LoadContext(path=checkpoint, device="cpu", dtype="float32", max_slots=3)


@pytest.fixture(scope="session")
def prompter(context: LoadContext) -> GlmImagePrompter:
    return GlmImagePrompter(context)


@pytest.fixture(scope="session")
def prior(context: LoadContext) -> PriorRunner:
    return load_prior(context)
