"""Speech without a server: a model and the service around it, on an event loop of the test."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
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


class KeptSpeech:
    """A loaded model that several tests share, and the loop that it lives on."""

    def __init__(self, runner: asyncio.Runner, speech: Speech) -> None:
        self.speech = speech
        self._runner = runner

    def run(self, body: Callable[[Speech], Awaitable[T]]) -> T:
        """Call ``body`` with it, which must leave no request open."""

        async def main() -> T:
            result = await body(self.speech)
            assert self.speech.model(None).fabric.num_open == 0
            return result

        return self._runner.run(main())


@contextmanager
def kept(source: str) -> Generator[KeptSpeech, None, None]:
    """Load a model for many tests or examples."""
    with asyncio.Runner() as runner:
        opened = loaded(source)
        yield KeptSpeech(runner, runner.run(opened.__aenter__()))
        runner.run(opened.__aexit__(None, None, None))
