"""Text for streams of speech, and how tests push it and hear what is made of it."""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

import numpy as np

from antiphon.contracts.types import Ended, Samples, Sampling, SpeechRequest
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.text_stream import SpeechSession, Utterance

TEXT = (
    "Hello there, this is a clause of some length, and it goes on. I met Dr. Smith today!"
    ' "Really?" she asked. Yes. It cost 3.50 dollars; that is a lot, e.g. for me.'
)
MAX_FRAMES = 30


LONG_SEED, SHORT_SEED = 1, 4
"""With the random checkpoint, the one speaks for long, the other ends after a few frames."""


def ask(*, seed: int = LONG_SEED, **more: Any) -> SpeechRequest:
    return SpeechRequest("", seed=seed, sampling=Sampling(max_frames=MAX_FRAMES), **more)


async def heard(utterance: Utterance) -> tuple[Samples, Ended]:
    chunks: list[Samples] = []
    async with aclosing(utterance.synthesis.events()) as events:
        async for event in events:
            if isinstance(event, Ended):
                return np.concatenate(chunks), event
            chunks.append(event.samples)
    raise AssertionError("a stream ends with its end")


async def said(speech: Speech, pieces: Iterable[str], **more: Any) -> tuple[Samples, Ended]:
    """Push pieces while listening."""
    session = SpeechSession(speech)
    utterance = session.open(ask(**more))

    async def push() -> None:
        for piece in pieces:
            utterance.push(piece)
            await asyncio.sleep(0)
        utterance.complete()

    _, result = await asyncio.gather(push(), heard(utterance))
    await session.end(utterance)
    return result
