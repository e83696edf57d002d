"""Voices of random weights, made once for all tests here."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import SpeechRequest
from antiphon.families.piper.generator import PiperGenerator
from antiphon.families.piper.prompt import PiperPrompter
from tests.families.piper.random_checkpoint import write_voice


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two voices of one network, and one of another."""
    made = tmp_path_factory.mktemp("piper")
    write_voice(made, "en_US-one")
    write_voice(made, "en_US-several", seed=1, num_speakers=2)
    return made


@pytest.fixture(scope="session")
def prompter(directory: Path) -> PiperPrompter:
    return PiperPrompter(LoadContext(directory))


@pytest.fixture(scope="session")
def generator(directory: Path) -> Iterator[PiperGenerator]:
    generator = PiperGenerator(LoadContext(directory))
    yield generator
    generator.close()


@pytest.fixture(scope="session")
def prompt_of(prompter: PiperPrompter) -> Callable[..., Prompt]:
    def build(text: str, seed: int = 1, voice: str = "en_US-one", **more: object) -> Prompt:
        voices = {each.id: each for each in prompter.capabilities.voices}
        return prompter.build(SpeechRequest(text, **more), voices[voice], seed)  # type: ignore[arg-type]

    return build
