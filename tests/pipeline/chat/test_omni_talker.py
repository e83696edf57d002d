"""A model says what it writes: the voice is that of its own states, and both stop together."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.audio.chain import Chain
from antiphon.concurrency import Workers
from antiphon.config import ModelSettings, ServerSettings, Settings
from antiphon.config.chat import ChatSettings
from antiphon.contracts.chat import CHAT_VOICE
from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message, TextDelta
from antiphon.contracts.types import AudioChunk, Ended, PositionStates, SpeechRequest
from antiphon.errors import ModelLoadError, UnknownVoiceError
from antiphon.families.registry import checkpoint_family
from antiphon.pipeline.chat.omni_talker import AnswerSynthesis, OmniTalkerChat
from antiphon.pipeline.chat.service import CHAT, Chats, collect_answer
from antiphon.pipeline.model_loading import ServedModels, load_all_tasks, served_tasks
from antiphon.telemetry.metrics import Metrics
from tests.loops import until
from tests.own_voices import make_own_voice

pytest.importorskip("torch", reason="needs the extra 'torch'")

SAMPLES_PER_CODE = 30


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_own_voice(tmp_path_factory.mktemp("own_voice"))


def settings_of(path: Path) -> Settings:
    model = ModelSettings(source=str(path), name="omni", device="cpu", dtype="float32", max_slots=2)
    return Settings(model=model)


@asynccontextmanager
async def served(path: Path) -> AsyncGenerator[tuple[Chats, ServedModels], None]:
    models = await load_all_tasks(settings_of(path))
    chats = Chats(models.chats, ChatSettings(), voices=models.chat_voices)
    try:
        yield chats, models
    finally:
        chats.close()
        await models.tasks[0].close()


def asked(text: str = "How are you?", **more: Any) -> ChatRequest:
    sampling = ChatSampling(temperature=0.0, repetition_penalty=1.0)
    given: dict[str, Any] = {"max_tokens": 6, "seed": 4, "is_live": False, **more}
    return ChatRequest((Message("user", text),), sampling=sampling, **given)


def spoken_by(
    chats: Chats, request: ChatRequest, voice: str | None = None, **more: Any
) -> OmniTalkerChat:
    model = chats.voice(None)
    assert model is not None
    speech = SpeechRequest("", seed=request.seed, **more)
    return chats.speak(request, model, model.voice(voice, {}), speech)


async def said(
    chats: Chats, request: ChatRequest, voice: str | None = None, **more: Any
) -> tuple[str, NDArray[np.float32], Ended]:
    spoken = spoken_by(chats, request, voice, **more)
    writing = asyncio.create_task(collect_answer(spoken.text()))
    events = [event async for event in spoken.audio()]
    *chunks, ended = events
    assert isinstance(ended, Ended)
    samples = [each.samples for each in chunks if isinstance(each, AudioChunk)]
    whole = np.concatenate(samples) if samples else np.zeros(0, np.float32)
    return (await writing).text, whole, ended


async def test_an_answer_is_said_and_is_the_same_alone_and_in_company(path: Path) -> None:
    async with served(path) as (chats, _):
        text, audio, ended = await said(chats, asked())
        assert text == (await collect_answer(chats.stream(asked()))).text
        assert len(audio) == ended.usage.output_tokens * SAMPLES_PER_CODE > 0
        assert audio.std() > 0.01
        again, other = await asyncio.gather(
            said(chats, asked()), said(chats, asked("Hello there"), "ethan")
        )
        np.testing.assert_array_equal(again[1], audio)
        assert not np.array_equal(other[1][: len(audio)], audio[: len(other[1])])


@pytest.mark.parametrize(("speed", "rate_hz"), [(2.0, None), (0.5, 8000), (1.0, 48000)])
async def test_speed_rate_and_volume_are_those_of_all_speech(
    path: Path, speed: float, rate_hz: int | None
) -> None:
    async with served(path) as (chats, _):
        request = asked(seed=2)
        _, plain, _ = await said(chats, request)
        chain = Chain(24_000, rate_hz or 24_000, speed)
        expected = np.concatenate([chain.push(plain), chain.flush()])
        more: dict[str, Any] = {"speed": speed, "sample_rate_hz": rate_hz, "volume": 0.5}
        _, changed, _ = await said(chats, request, **more)
        np.testing.assert_array_equal(changed, expected * np.float32(0.5))


async def test_closing_stops_both_models(path: Path) -> None:
    async with served(path) as (chats, models):
        spoken = spoken_by(chats, asked(max_tokens=200))
        async with aclosing(spoken.text()) as text, aclosing(spoken.audio()) as audio:
            assert isinstance(await anext(text), TextDelta)
            reading = asyncio.create_task(_drain(text))
            assert isinstance(await anext(audio), AudioChunk)
            reading.cancel()
        await until(lambda: not any(model.status.num_open for model in models.tasks))


async def _drain(stream: Any) -> None:
    async for _ in stream:
        pass


async def test_an_answer_without_a_word_is_silent(path: Path) -> None:
    async with served(path) as (chats, _):
        _, audio, ended = await said(chats, asked(max_tokens=1))
        assert len(audio) == 0
        assert ended.reason == "stop"


async def test_a_stop_string_is_not_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    push = AnswerSynthesis.push

    def recorded(synthesis: AnswerSynthesis, states: PositionStates) -> None:
        push(synthesis, states)
        ends.append(states.start + len(states.states))

    monkeypatch.setattr(AnswerSynthesis, "push", recorded)
    async with served(path) as (chats, _):

        async def told(*stop: str) -> tuple[str, int, int]:
            ends.clear()
            spoken = spoken_by(chats, asked(max_tokens=12, stop=stop))
            reading = asyncio.create_task(_drain(spoken.audio()))
            deltas = [each async for each in spoken.text() if isinstance(each, TextDelta)]
            await reading
            num_tokens = sum(each.num_tokens for each in deltas)
            return "".join(each.text for each in deltas), num_tokens, max(ends)

        whole, num_tokens, num_positions = await told()
        assert num_tokens == 12
        num_prompt = num_positions - 11  # nothing is read of the last token
        text, num_tokens, num_positions = await told(whole[-4:])
        assert text == whole[: whole.index(whole[-4:])]
        assert num_positions == num_prompt + num_tokens < num_prompt + 11


async def test_voices_are_those_of_the_checkpoint(path: Path) -> None:
    async with served(path) as (chats, models):
        voice = chats.voice(None)
        assert voice is not None
        assert [each.id for each in voice.capabilities.voices] == ["Chelsie", "Ethan"]
        assert spoken_by(chats, asked(), "ETHAN", sample_rate_hz=8000).sample_rate_hz == 8000
        aliases = {"alloy": "default", "echo": "ethan"}
        ids = [voice.voice(each, aliases).id for each in ("Alloy", "echo", None)]
        assert ids == ["Chelsie", "Ethan", "Chelsie"]
        assert voice.voice(None, {**aliases, "default": "Ethan"}).id == "Ethan"
        with pytest.raises(UnknownVoiceError, match="Chelsie"):
            voice.voice("nobody", {})
        await voice.warm_up()
        assert "own voice" in models.does()["omni"]


async def test_states_told_twice_are_taken_once(path: Path) -> None:
    async with served(path) as (chats, _):
        model = chats.voice(None)
        assert model is not None
        voice = model.voice(None, {})
        own = AnswerSynthesis(model, SpeechRequest(""), voice, Workers("test"), Metrics())
        states = np.arange(6, dtype=np.float32).reshape(3, 2)
        for start, end in ((0, 2), (0, 2), (1, 3), (2, 3)):
            own.push(PositionStates(start, states[start:end]))
        first, second = own._states.get_nowait(), own._states.get_nowait()
        assert first is not None
        assert second is not None
        np.testing.assert_array_equal(second.states, states[2:])
        assert (first.start, second.start, own._states.qsize()) == (0, 2, 0)


async def test_a_checkpoint_without_a_voice_chats_as_before(tmp_path: Path) -> None:
    path = make_own_voice(tmp_path, "omni")
    family = checkpoint_family(path)
    assert set(served_tasks(family, ServerSettings())) == {CHAT, CHAT_VOICE}
    assert set(served_tasks(family, ServerSettings(output_modalities=("text",)))) == {CHAT}
    with pytest.raises(ModelLoadError, match="makes"):
        served_tasks(family, ServerSettings(output_modalities=("audio",)))
    async with served(path) as (chats, models):
        assert chats.voice(None) is None
        assert [each.task_name for each in models.tasks] == [CHAT]
        assert (await collect_answer(chats.stream(asked()))).text
