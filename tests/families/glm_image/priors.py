"""Requests for images, and codes drawn for their prompts."""

from pathlib import Path
from typing import Any

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import ImageRequest
from antiphon.contracts.prompt import Prompt
from antiphon.families.glm_image.prior import load_prior
from antiphon.families.glm_image.prompt import GlmImagePrompt, GlmImagePrompter
from tests.families.language_models import LanguageModel

TEXT = "A red cat, and the words 'hello you'."


def ask(text: str = TEXT, width: int = 64, height: int = 96, **more: Any) -> ImageRequest:
    return ImageRequest(text, width=width, height=height, **more)


def greedy(
    prompter: GlmImagePrompter, text: str = TEXT, width: int = 64, height: int = 96
) -> Prompt:
    return prompter.build(ask(text, width, height, options={"prior_temperature": 0}), 0)


def data_of(prompt: Prompt) -> GlmImagePrompt:
    assert isinstance(prompt.data, GlmImagePrompt)
    return prompt.data


def _prompts(path: Path) -> dict[int, Prompt]:
    prompter = GlmImagePrompter(LoadContext(path))
    other = prompter.build(ask("Two dogs", 128, 64), 6)
    return {1: other, 2: prompter.build(ask(), 5), 0: greedy(prompter)}


LANGUAGE_MODEL = LanguageModel(load_prior, _prompts)
