"""Checkpoints of random weights in every layout, and what is loaded from them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.families.causal_lm.language_model import CausalLMRunner, load_runner
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from tests.families.causal_lm.random_checkpoint import make_checkpoint


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def made(layout: str) -> Path:
        path = tmp_path_factory.mktemp(layout)
        make_checkpoint(path, size="tiny", task=layout, shards=2 if layout == "llama" else 1)
        return path

    return made


@pytest.fixture(scope="session")
def checkpoint(checkpoint_of: Callable[[str], Path]) -> Path:
    return checkpoint_of("qwen3")


@pytest.fixture(scope="session")
def context(checkpoint: Path) -> LoadContext:
    return LoadContext(path=checkpoint, device="cpu", dtype="float32", max_slots=4)


@pytest.fixture(scope="session")
def prompter(context: LoadContext) -> CausalLMPrompter:
    return CausalLMPrompter(context)


@pytest.fixture(scope="session")
def runner(context: LoadContext) -> CausalLMRunner:
    return load_runner(context)


@pytest.fixture(scope="session")
def batched(context: LoadContext) -> CausalLMRunner:
    """One that computes all slots together, as on a GPU."""
    return load_runner(context, is_batched=True)
