"""One prompter and one generator for all tests here: loading takes most of a second."""

from collections.abc import Callable, Iterator

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import SpeechRequest
from antiphon.families.hibari.generator import HibariGenerator
from antiphon.families.hibari.prompt import HibariPrompter


@pytest.fixture(scope="session")
def prompter() -> HibariPrompter:
    return HibariPrompter(LoadContext())


@pytest.fixture(scope="session")
def generator() -> Iterator[HibariGenerator]:
    generator = HibariGenerator(LoadContext())
    yield generator
    generator.close()


@pytest.fixture(scope="session")
def prompt_of(prompter: HibariPrompter) -> Callable[..., Prompt]:
    def build(text: str, seed: int = 1) -> Prompt:
        return prompter.build(SpeechRequest(text), prompter.capabilities.voices[0], seed)

    return build
