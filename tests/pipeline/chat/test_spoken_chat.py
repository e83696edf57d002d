"""An answer is spoken before it is complete, and both models stop when nobody listens any more."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import pytest

from antiphon.concurrency import merged
from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.chat_types import ChatEvent, ChatStream, TextDelta
from antiphon.contracts.types import AudioChunk, Ended, SpeechRequest, Usage
from antiphon.errors import EngineError, OverloadedError, UnknownVoiceError
from antiphon.pipeline.chat.spoken_chat import SpokenChat, TextSpokenChat
from antiphon.pipeline.speech.model import SPEECH, SpeechModel
from antiphon.pipeline.speech.service import Speech
from tests.loops import until

SENTENCE = "Here is the first sentence of the answer. And "
REQUEST = SpeechRequest("", voice="sine", seed=3)


@asynccontextmanager
async def speaking(
    source: str = "toy", settings: SpeechSettings | None = None
) -> AsyncGenerator[tuple[Speech, SpeechModel], None]:
    model = await SpeechModel.load(ModelSettings(source=source), SPEECH)
    speech = Speech({model.name: model}, settings or SpeechSettings())
    try:
        yield speech, model
    finally:
        speech.close()
        await model.close()


async def written(*texts: str, until: asyncio.Event | None = None) -> ChatStream:
    for text in texts:
        yield TextDelta(text)
    if until is not None:
        await until.wait()
        yield TextDelta("the rest.")
    yield Ended("stop", Usage(3, 4))


async def read(stream: ChatStream) -> list[ChatEvent]:
    return [event async for event in stream]


async def test_audio_comes_while_the_answer_is_being_written() -> None:
    async with speaking() as (speech, _):
        is_heard = asyncio.Event()
        spoken = TextSpokenChat(written(" ", SENTENCE, until=is_heard), speech, REQUEST)
        reading = asyncio.create_task(read(spoken.text()))
        num_samples = 0
        async for event in spoken.audio():
            if isinstance(event, AudioChunk):
                assert num_samples or not reading.done()
                num_samples += len(event.samples)
                is_heard.set()  # before which the answer does not go on
        *deltas, ended = await reading
        text = "".join(each.text for each in deltas if isinstance(each, TextDelta))
        assert text == f" {SENTENCE}the rest."
        assert ended == Ended("stop", Usage(3, 4))
        whole = [each async for each in speech.stream(SpeechRequest(text, "sine", seed=3))]
        assert num_samples >= sum(
            len(each.samples) for each in whole if isinstance(each, AudioChunk)
        )


@pytest.mark.parametrize("texts", [(), (" ", "\n")])
async def test_an_answer_without_words_is_silent(texts: tuple[str, ...]) -> None:
    async with speaking() as (speech, _):
        spoken = TextSpokenChat(written(*texts), speech, REQUEST)
        _, audio = await asyncio.gather(read(spoken.text()), _heard(spoken))
        assert audio == [Ended("stop")]


async def test_an_answer_that_nobody_could_say_is_silent() -> None:
    async with speaking("hibari") as (speech, _):
        spoken = TextSpokenChat(written("😀"), speech, SpeechRequest(""))
        _, audio = await asyncio.gather(read(spoken.text()), _heard(spoken))
        assert audio == [Ended("stop")]


async def test_closing_both_streams_stops_both_models() -> None:
    is_closed = asyncio.Event()

    async def endless() -> ChatStream:
        try:
            while True:
                yield TextDelta(SENTENCE)
                await asyncio.sleep(0)
        finally:
            is_closed.set()

    async with speaking() as (speech, model):
        spoken = TextSpokenChat(endless(), speech, REQUEST)
        text, audio = spoken.text(), spoken.audio()
        await anext(text)
        await anext(text)
        assert isinstance(await anext(audio), AudioChunk)
        await text.aclose()
        await audio.aclose()
        assert is_closed.is_set()
        await until(lambda: not model.status.num_open)


async def test_faults_of_either_model_are_raised() -> None:
    async def broken() -> ChatStream:
        yield TextDelta(SENTENCE)
        raise EngineError("on purpose")

    async with speaking() as (speech, _):
        spoken = TextSpokenChat(broken(), speech, REQUEST)
        with pytest.raises(EngineError):
            await read(spoken.text())
        await spoken.audio().aclose()
        unknown = TextSpokenChat(written(SENTENCE), speech, SpeechRequest("", voice="nobody"))
        await read(unknown.text())
        with pytest.raises(UnknownVoiceError):
            await _heard(unknown)


async def _heard(spoken: SpokenChat) -> list[AudioChunk | Ended]:
    return [event async for event in spoken.audio()]


async def test_what_a_model_writes_is_held_to_nothing_that_clients_are() -> None:
    async with speaking(settings=SpeechSettings(max_input_characters=50)) as (speech, _):
        texts = ("Wait [pause:1h] or [pause:99s]. ", SENTENCE * 4)
        spoken = TextSpokenChat(written(*texts), speech, REQUEST)
        _, audio = await asyncio.gather(read(spoken.text()), _heard(spoken))
        assert isinstance(audio[-1], Ended)
        duration_s = sum(each.duration_s for each in audio if isinstance(each, AudioChunk))
        assert duration_s > len(SENTENCE * 4) * 0.05
        silent = TextSpokenChat(written("[pause:1s]"), speech, REQUEST)
        _, audio = await asyncio.gather(read(silent.text()), _heard(silent))
        assert audio[-1] == Ended("stop")


@pytest.mark.parametrize("source", ["toy", "hibari"])
async def test_nothing_is_written_if_there_is_no_room_to_speak(source: str) -> None:
    is_asked = False

    async def asked() -> ChatStream:
        nonlocal is_asked
        is_asked = True
        yield TextDelta(SENTENCE)
        yield Ended("stop", Usage(3, 4))

    voice = SpeechRequest("", seed=3)
    full = ModelSettings(source=source, max_slots=1, max_waiting=0)
    model = await SpeechModel.load(full, SPEECH)
    speech = Speech({model.name: model}, SpeechSettings())
    async with aclosing(model.reserve(SpeechRequest(""))) as other:
        await anext(other)
        spoken = TextSpokenChat(asked(), speech, voice)
        items = merged([spoken.text(), spoken.audio()])
        with pytest.raises(OverloadedError) as refused:
            await anext(items)
        assert refused.value.retry_after_s
        assert not is_asked
    for num_read in (0, 1, 10**6):  # whenever it is left, the room is free again
        spoken = TextSpokenChat(asked(), speech, voice)
        async with aclosing(merged([spoken.text(), spoken.audio()])) as items:
            for _ in range(num_read):
                if await anext(items, None) is None:
                    break
        assert model.status.num_open == 0
    assert is_asked
    speech.close()
    await model.close()
