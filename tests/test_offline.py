"""The Python face: sync equals async, files are written, wrong names explain themselves."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon import Antiphon, ChatRequest, ChatSampling, Message, SpeechRequest
from antiphon.contracts.chat_types import TextDelta
from antiphon.contracts.sampling import Sampling
from antiphon.contracts.types import Ended
from antiphon.errors import InvalidRequestError, ModelLoadError, SettingsError
from tests.decoding import told_length

REQUEST = SpeechRequest("Hello there.", seed=3)


def test_stream_collected_is_speech_sync_and_async() -> None:
    async def asynchronously(antiphon: Antiphon) -> tuple[list[np.ndarray], np.ndarray]:
        chunks = [chunk.samples async for chunk in antiphon.astream(REQUEST)]
        return chunks, (await antiphon.aspeech(REQUEST)).samples

    with Antiphon.load("toy") as antiphon:
        whole = antiphon.speech(REQUEST)
        chunks = [chunk.samples for chunk in antiphon.stream(REQUEST)]
        async_chunks, async_whole = asyncio.run(asynchronously(antiphon))
    assert len(chunks) > 1
    for samples in (np.concatenate(chunks), np.concatenate(async_chunks), async_whole):
        np.testing.assert_array_equal(samples, whole.samples)
    assert whole.finish_reason == "stop"
    assert whole.usage.output_tokens * 960 == len(whole.samples)


def test_leaving_a_stream_early_leaves_nothing_open() -> None:
    with Antiphon.load("toy") as antiphon:
        for _ in antiphon.stream("A long text. " * 50):
            break
        assert antiphon.speech("Hello.").duration_s > 0


def test_save_writes_what_was_spoken(tmp_path: Path) -> None:
    with Antiphon.load("toy") as antiphon:
        audio = antiphon.speech(REQUEST)
    audio.save(tmp_path / "hello.wav")
    samples, rate_hz = soundfile.read(tmp_path / "hello.wav", dtype="float32")
    assert rate_hz == audio.sample_rate_hz
    np.testing.assert_allclose(samples, audio.samples, atol=1 / 32767)
    for format in ("mp3", "opus", "flac", "wav"):
        audio.save(tmp_path / f"hello.{format}")
        file = (tmp_path / f"hello.{format}").read_bytes()
        assert told_length(file, rate_hz) == len(audio.samples)
    with pytest.raises(InvalidRequestError, match="mp3, opus, aac, flac, wav, pcm"):
        audio.save(tmp_path / "hello.txt")


def test_wrong_names_explain_themselves() -> None:
    with pytest.raises(ModelLoadError, match="Did you mean 'toy'"):
        Antiphon.load("toyy")
    with pytest.raises(SettingsError, match=r"Did you mean 'model\.device'"):
        Antiphon.load("toy", devise="cpu")


def test_fields_of_requests_are_checked_as_those_of_a_server() -> None:
    refused = {
        "volume": SpeechRequest("Hello.", volume=-1.0),
        "max_new_tokens": SpeechRequest("Hello.", sampling=Sampling(max_frames=0)),
    }
    with Antiphon.load("toy") as antiphon:
        for field, request in refused.items():
            with pytest.raises(InvalidRequestError, match=f"Invalid '{field}'"):
                antiphon.speech(request)


def test_voices_are_listed() -> None:
    with Antiphon.load("toy") as antiphon:
        assert [voice.id for voice in antiphon.voices] == ["sine", "alto", "bass"]


def test_what_a_program_asks_for_waits_instead_of_being_refused() -> None:
    """Nobody would ask again: the queue has no end, and no wait is too long."""
    request = SpeechRequest("a", seed=1)

    async def listen(antiphon: Antiphon) -> bytes:
        return b"".join([chunk.samples.tobytes() async for chunk in antiphon.astream(request)])

    async def all_at_once(antiphon: Antiphon) -> list[bytes]:
        return await asyncio.gather(*(listen(antiphon) for _ in range(300)))

    with Antiphon.load("toy", max_slots=1) as antiphon:
        assert len(set(asyncio.run(all_at_once(antiphon)))) == 1


def test_chats_are_answered_whole_and_streamed_sync_and_async() -> None:
    request = ChatRequest((Message("user", "Hé"),), sampling=ChatSampling(temperature=0.0))

    async def asynchronously(antiphon: Antiphon) -> tuple[str, str]:
        events = [event async for event in antiphon.achat_stream(request)]
        texts = [event.text for event in events if isinstance(event, TextDelta)]
        return "".join(texts), (await antiphon.achat(request)).text

    with Antiphon.load("toy", outputs=["text"]) as antiphon:
        answer = antiphon.chat(request)
        assert (answer.text, answer.finish_reason) == ("You said: Hé", "stop")
        assert answer.usage.output_tokens == 6
        *deltas, ended = antiphon.chat_stream(request)
        assert "".join(each.text for each in deltas if isinstance(each, TextDelta)) == answer.text
        assert ended == Ended("stop", answer.usage)
        assert asyncio.run(asynchronously(antiphon)) == (answer.text, answer.text)
        # Drawn at the model's own temperature, whatever the answer is.
        assert antiphon.chat("Hé").usage.input_tokens == answer.usage.input_tokens
        assert antiphon.chat(request.messages).usage.input_tokens == answer.usage.input_tokens
        for _ in antiphon.chat_stream("A long text. " * 50):
            break
        assert antiphon.chat(request) == answer
