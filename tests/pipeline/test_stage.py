"""Late text that goes wrong, or whose listener leaves, leaves nothing behind."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing

import numpy as np
import pytest

from antiphon.config import ModelSettings
from antiphon.errors import InvalidRequestError
from antiphon.fabric.base import StageRequest, StageStream
from antiphon.models.base import Piece
from antiphon.models.toy.prompt import ToyPrompter
from antiphon.pipeline.speech.model import LoadedModel
from antiphon.types import AudioChunk, Ended, FrameReady, Samples, SpeechRequest

DEADLINE_S = 20.0
"""For what must happen at all; how soon is nowhere asserted."""


class Text:
    """Arrives in parts; then it is closed, or nothing comes any more."""

    def __init__(self, parts: Iterable[str], *, is_closed: bool = True) -> None:
        self.has_left = False
        self._parts = parts
        self._is_closed = is_closed

    def open(self, model: LoadedModel) -> StageStream:
        assert isinstance(model.prompter, ToyPrompter)
        request = SpeechRequest("", sampling=model.task.sampling)
        prompt, feed = model.prompter.open(request, model.capabilities.voices[0], 1)

        async def pieces() -> AsyncGenerator[Piece, None]:
            try:
                for part in self._parts:
                    if (piece := feed.push(part)) is not None:
                        yield piece
                if self._is_closed:
                    yield feed.close()
                else:
                    await asyncio.Event().wait()
            finally:
                self.has_left = True

        return model.open(StageRequest("late", prompt), pieces())


def on_toy(body: Callable[[LoadedModel], Awaitable[None]]) -> None:
    async def main() -> None:
        model = await LoadedModel.load(ModelSettings(source="toy", device="cpu", max_slots=2))
        try:
            async with asyncio.timeout(DEADLINE_S):
                await body(model)
            assert model.fabric.num_open == 0
            assert model.status.failure is None
        finally:
            await model.close()

    asyncio.run(main())


def test_what_is_wrong_with_the_text_is_told_to_the_listener() -> None:
    async def body(model: LoadedModel) -> None:
        text = Text([])  # empty, as is known at its end
        with pytest.raises(InvalidRequestError):
            [item async for item in text.open(model)]
        assert text.has_left

    on_toy(body)


def test_a_listener_who_leaves_ends_the_text_and_frees_the_slot() -> None:
    async def body(model: LoadedModel) -> None:
        for _ in range(3):  # more than there are slots
            text = Text(["la la la la"], is_closed=False)
            async with aclosing(text.open(model)) as items:
                assert isinstance(await anext(items), AudioChunk)
            assert text.has_left

    on_toy(body)


def test_a_text_is_spoken_as_far_as_it_has_come() -> None:
    async def body(model: LoadedModel) -> None:
        arrived = asyncio.Event()
        prompter = model.prompter
        assert isinstance(prompter, ToyPrompter)
        request = SpeechRequest("la ", sampling=model.task.sampling)
        prompt, feed = prompter.open(request, model.capabilities.voices[0], 1)

        async def pieces() -> AsyncGenerator[Piece, None]:
            await arrived.wait()  # which happens once the first words have been heard
            piece = feed.push("la")
            assert piece is not None
            yield piece
            yield feed.close()

        items = [
            item
            async for item in _signalling(
                model.open(StageRequest("late", prompt), pieces()), arrived
            )
        ]
        assert items[-1] == Ended("stop")
        chunks = [item for item in items if isinstance(item, AudioChunk)]
        assert sum(chunk.num_frames for chunk in chunks) == 2 * len("la la")

    on_toy(body)


@pytest.mark.parametrize("is_colocated", [True, False])
def test_a_stream_is_resumed_at_any_frame_by_another_replica(is_colocated: bool) -> None:
    async def main() -> None:
        settings = ModelSettings(source="toy", device="cpu", max_slots=2)
        apart = await LoadedModel.load(settings, is_colocated=False)
        model = await LoadedModel.load(settings, is_colocated=is_colocated)
        request = SpeechRequest("la la la la", sampling=model.task.sampling)
        prompt = model.prompter.build(request, model.capabilities.voices[0], 1)
        talker = apart._stages.handles[0]
        items = [item async for item in apart.fabric.open(talker, StageRequest("talk", prompt))]
        frames = tuple(item.frame for item in items if isinstance(item, FrameReady))
        whole = await _samples(model, StageRequest("whole", prompt))
        for num_made in (1, len(frames) // 2, len(frames) - 1, len(frames)):
            resumed = StageRequest("resumed", prompt, resume_frames=frames[:num_made])
            begins = num_made * len(whole) // len(frames)
            assert np.array_equal(await _samples(model, resumed), whole[begins:])
        await apart.close()
        await model.close()

    asyncio.run(main())


async def _samples(model: LoadedModel, request: StageRequest) -> Samples:
    items = [item async for item in model.open(request)]
    assert items[-1] == Ended("stop")
    chunks = [item.samples for item in items if isinstance(item, AudioChunk)]
    return np.concatenate([np.zeros(0, np.float32), *chunks])


async def _signalling(stream: StageStream, heard: asyncio.Event) -> StageStream:
    async with aclosing(stream):
        async for item in stream:
            heard.set()
            yield item
