"""Text pushed in pieces: the same audio as in one piece, in order, and free when it is dropped."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from antiphon.config import ModelSettings, SpeechSettings
from antiphon.errors import EngineError, InputTooLongError, InvalidRequestError
from antiphon.fabric.base import StageItem
from antiphon.models.base import LateText
from antiphon.models.registry import families
from antiphon.pipeline.feeding import fed
from antiphon.pipeline.runtime import LoadedModel
from antiphon.pipeline.session import SpeechSession, Utterance
from antiphon.pipeline.speech import Speech
from antiphon.pipeline.text import segment_seed
from antiphon.types import (
    AudioChunk,
    Ended,
    FrameReady,
    Samples,
    Sampling,
    SpeechRequest,
    WordTime,
)

T = TypeVar("T")
TEXT = (
    "Hello there, this is a clause of some length, and it goes on. I met Dr. Smith today!"
    ' "Really?" she asked. Yes. It cost 3.50 dollars; that is a lot, e.g. for me.'
)
MAX_FRAMES = 30
SEGMENTS = [
    "Hello there, this is a clause of some length,",
    "and it goes on. I met Dr. Smith today!",
    '"Really?" she asked. Yes.',
    "It cost 3.50 dollars; that is a lot, e.g. for me.",
]


@asynccontextmanager
async def loaded(source: str) -> AsyncGenerator[Speech, None]:
    model = await LoadedModel.load(ModelSettings(source=source, device="cpu", max_slots=4))
    speech = Speech({model.name: model}, SpeechSettings(max_input_characters=2000))
    try:
        yield speech
    finally:
        assert model.fabric.num_open == 0
        speech.close()
        await model.close()


def on(source: str, body: Callable[[Speech], Awaitable[T]]) -> T:
    async def main() -> T:
        async with loaded(source) as speech:
            return await body(speech)

    return asyncio.run(main())


LONG_SEED, SHORT_SEED = 0, 1
"""With the random checkpoint, the one speaks for long, the other ends after a few frames."""


def ask(*, seed: int = LONG_SEED, **more: Any) -> SpeechRequest:
    return SpeechRequest("", seed=seed, sampling=Sampling(max_frames=MAX_FRAMES), **more)


async def heard(utterance: Utterance) -> tuple[Samples, Ended]:
    chunks: list[Samples] = []
    async with aclosing(utterance.events()) as events:
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


def test_the_joined_segments_are_the_utterance() -> None:
    async def body(speech: Speech) -> None:
        samples, ended = await said(speech, TEXT)
        parts = []
        for index, text in enumerate(SEGMENTS):
            request = SpeechRequest(
                text, seed=segment_seed(LONG_SEED, index), sampling=ask().sampling
            )
            async with aclosing(speech.stream(request)) as events:
                parts += [each.samples async for each in events if isinstance(each, AudioChunk)]
        np.testing.assert_array_equal(samples, np.concatenate(parts))
        assert ended.usage.output_tokens == len(samples) // 960

    on("toy", body)


@pytest.mark.parametrize("more", [{}, {"speed": 1.5, "sample_rate_hz": 16_000}], ids=str)
@pytest.mark.parametrize("source", ["toy", "late"])
def test_any_split_gives_the_same_audio(
    source: str, more: dict[str, Any], checkpoint: Callable[..., Path]
) -> None:
    if source == "late":
        source = str(checkpoint("tiny", "custom_voice"))

    async def body(speech: Speech) -> None:
        whole, ended = await said(speech, [TEXT], **more)
        assert ended.usage.output_tokens >= MAX_FRAMES
        for size in (1, 7, 50):
            pieces = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
            samples, end = await said(speech, pieces, **more)
            np.testing.assert_array_equal(samples, whole)
            assert end == ended

    on(source, body)


def test_late_text_is_spoken_before_it_is_complete(checkpoint: Callable[..., Path]) -> None:
    async def body(speech: Speech) -> None:
        session = SpeechSession(speech)
        utterance = session.open(ask())
        async with aclosing(utterance.events()) as events:
            utterance.push("Hello there, my ")
            assert isinstance(await anext(events), AudioChunk)
            utterance.push("friends.")
            utterance.complete()
            *_, last = [event async for event in events]
            assert isinstance(last, Ended)
        await session.end(utterance)

    on(str(checkpoint("tiny", "custom_voice")), body)


def test_a_model_that_ends_too_early_goes_on_with_what_follows(
    checkpoint: Callable[..., Path],
) -> None:
    async def body(speech: Speech) -> None:
        session, fabric = SpeechSession(speech), speech.model(None).fabric
        _, alone = await said(speech, [TEXT], seed=SHORT_SEED)
        assert alone.reason == "stop"
        utterance = session.open(ask(seed=SHORT_SEED))
        utterance.push(TEXT)
        listening = asyncio.create_task(heard(utterance))
        await until(lambda: fabric.num_open > 0)
        await until(lambda: fabric.num_open == 0)
        utterance.push(" And then some more.")
        utterance.complete()
        _, ended = await listening
        assert ended.usage.output_tokens > alone.usage.output_tokens
        assert ended.usage.input_tokens > alone.usage.input_tokens
        await session.end(utterance)

    on(str(checkpoint("tiny", "custom_voice")), body)


def test_the_next_utterance_is_begun_while_one_is_heard() -> None:
    async def body(speech: Speech) -> None:
        session, fabric = SpeechSession(speech), speech.model(None).fabric
        alone = [(await said(speech, text, voice=voice))[0] for text, voice in ORDERED]
        utterances = []
        for text, voice in ORDERED:
            utterances.append(session.open(ask(voice=voice)))
            utterances[-1].push(text)
            utterances[-1].complete()
        await until(lambda: fabric.num_open == 2 * NUM_STAGES or not fabric.num_open)
        for utterance, samples in zip(utterances, alone, strict=True):
            np.testing.assert_array_equal((await heard(utterance))[0], samples)
            await session.end(utterance)

    on("toy", body)


ORDERED = [("The first.", "sine"), ("The second.", "alto"), ("The third.", "bass")]
NUM_STAGES = 2


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("is_heard", [True, False])
@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("source", ["toy", "late"])
def test_what_is_dropped_is_free_at_once(
    source: str, is_complete: bool, is_heard: bool, checkpoint: Callable[..., Path]
) -> None:
    if source == "late":
        source = str(checkpoint("tiny", "custom_voice"))

    async def body(speech: Speech) -> None:
        session, fabric = SpeechSession(speech), speech.model(None).fabric
        utterances = [session.open(ask()) for _ in range(4)]
        for utterance in utterances:
            utterance.push(TEXT * 5)
            if is_complete:
                utterance.complete()
        events = utterances[0].events()
        if is_heard:
            await anext(events)
        await session.clear()
        assert fabric.num_open == 0
        await events.aclose()
        again = session.open(ask())
        again.push("Again.")
        again.complete()
        assert len((await heard(again))[0])
        await session.end(again)

    on(source, body)


def test_no_text_is_an_error_and_so_is_too_much() -> None:
    async def body(speech: Speech) -> None:
        with pytest.raises(InvalidRequestError, match="empty"):
            await said(speech, [" ", "\n"])
        session = SpeechSession(speech)
        utterance = session.open(ask())
        utterance.push("Hello.")
        with pytest.raises(InputTooLongError):
            utterance.push("a" * 2000)
        utterance.complete()
        samples, _ = await heard(utterance)
        np.testing.assert_array_equal(samples, (await said(speech, ["Hello."]))[0])
        await session.end(utterance)

    on("toy", body)


@pytest.mark.parametrize("fields", [{"voice": "nobody"}, {"speed": 9.0}, {"language": "klingon"}])
def test_what_cannot_be_spoken_is_told_before_there_is_text(fields: dict[str, Any]) -> None:
    async def body(speech: Speech) -> None:
        with pytest.raises(InvalidRequestError) as caught:
            await SpeechSession(speech).check(ask(**fields))
        assert caught.value.param == next(iter(fields))

    on("toy", body)


def test_capabilities_tell_the_truth_about_late_text(checkpoint: Callable[..., Path]) -> None:
    for family in families():
        source = str(checkpoint("tiny", "base")) if family.needs_checkpoint else family.name

        async def body(speech: Speech) -> None:
            model = speech.model(None)
            assert isinstance(model.prompter, LateText) or not model.capabilities.late_text

        on(source, body)


async def frames(num: int, *, then_wait: bool = False) -> AsyncGenerator[StageItem, None]:
    for number in range(num):
        yield FrameReady(number)
    if then_wait:
        await asyncio.Event().wait()


def test_what_fails_the_feeder_fails_the_stream() -> None:
    async def fail() -> None:
        raise EngineError("no more")

    async def main() -> None:
        with pytest.raises(EngineError, match="no more"):
            async for _ in fed(frames(3, then_wait=True), fail):
                pass

    asyncio.run(main())


def test_a_stream_outlives_its_feeder_and_stops_it_at_its_end() -> None:
    states: list[str] = []

    async def feed(*, for_ever: bool) -> None:
        try:
            if for_ever:
                await asyncio.Event().wait()
        finally:
            states.append("ended")

    async def main() -> None:
        for for_ever in (False, True):
            items: Sequence[StageItem] = [
                each async for each in fed(frames(3), partial(feed, for_ever=for_ever))
            ]
            assert items == [FrameReady(number) for number in range(3)]
        stream = fed(frames(3), partial(feed, for_ever=True))
        await anext(stream)
        await stream.aclose()
        assert states == ["ended"] * 3

    asyncio.run(main())


@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_words_are_timed_from_the_beginning_of_the_utterance(speed: float) -> None:
    texts = ["One two three, and so it goes on and on.", "Four five six seven eight nine."]

    async def body(speech: Speech) -> None:
        asked = ask(word_timestamps=True)
        alone = []
        for index, text in enumerate(texts):
            seed = segment_seed(LONG_SEED, index)
            events = [each async for each in speech.stream(replace(asked, input=text, seed=seed))]
            alone.append([each for each in events if isinstance(each, AudioChunk)])
        session = SpeechSession(speech)
        utterance = session.open(replace(asked, speed=speed, sample_rate_hz=16_000))
        for text in texts:
            utterance.push(text + " ")
        utterance.complete()
        found: list[WordTime] = []
        heard_s = 0.0
        async for event in utterance.events():
            if isinstance(event, AudioChunk):
                assert all(word.start_s >= heard_s - 0.3 for word in event.words)
                found += event.words
                heard_s += event.duration_s
        await session.end(utterance)
        expected = []
        start_s = 0.0
        for chunks in alone:
            expected += [
                (word.word, (start_s + word.start_s) / speed)
                for chunk in chunks
                for word in chunk.words
            ]
            start_s += sum(chunk.duration_s for chunk in chunks)
        assert [each.word for each in found] == [word for word, _ in expected]
        starts_s = [each.start_s for each in found]
        assert starts_s == pytest.approx([each_s for _, each_s in expected])
        assert found[-1].end_s <= heard_s + 0.01

    on("hibari", body)
