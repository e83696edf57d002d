"""Speech without a server: a model and the service around it, on an event loop of the test."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeVar

from antiphon.config import ModelSettings, SpeechSettings
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech

T = TypeVar("T")

MAX_CHARACTERS = 5000


@asynccontextmanager
async def loaded(
    source: str, max_input_characters: int = MAX_CHARACTERS
) -> AsyncGenerator[Speech, None]:
    """Load a model for as long as the block lasts; all requests must have ended by then."""
    model = await SpeechModel.load(ModelSettings(source=source, device="cpu", max_slots=4))
    speech = Speech({model.name: model}, SpeechSettings(max_input_characters=max_input_characters))
    try:
        yield speech
    finally:
        assert model.fabric.num_open == 0
        speech.close()
        await model.close()
