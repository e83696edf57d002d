"""One prompter and one generator for all tests here: loading takes most of a second."""

from collections.abc import Callable, Iterator

import pytest

from antiphon.models.base import Prompt
from antiphon.models.hibari.generator import HibariGenerator
from antiphon.models.hibari.prompt import HibariPrompter
from antiphon.models.spec import LoadContext
from antiphon.types import SpeechRequest


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
