"""Text goes in by pieces over a WebSocket, and what comes out is what HTTP gives for it."""

import base64
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, Settings
from tests.api.speech_talks import opened, posted, say
from tests.decoding import decoded
from tests.recordings import RECORDING_URI
from tests.servers import RunningServer, start_server, wait_until
from tests.sockets import audio, messages

TEXT = "Hello there, friends. How are you?"


@pytest.mark.parametrize("granularity", ["none", "sentence"])
def test_tags_change_the_voice_of_text_that_arrives(
    server: RunningServer, client: httpx.Client, granularity: str
) -> None:
    text = "Hello there. [voice:bass] How are you? [rate:2] Fine.[pause:0.1s]"
    with opened(server, seed=1, split_granularity=granularity) as talk:
        for letter in text:
            talk.send("input.text", text=letter)
        talk.send("input.done")
        found = talk.until("session.done")
    assert audio(found) == posted(client, text, seed=1)
    assert messages(found)[-1]["total_sentences"] == 3


def test_an_utterance_is_told_from_its_start_to_its_end(
    server: RunningServer, client: httpx.Client
) -> None:
    with opened(server, seed=1) as talk:
        for letter in "Hello there.":
            talk.send("input.text", text=letter)
        talk.send("input.done")
        found = talk.until("session.done")
    pcm = posted(client, "Hello there.", seed=1)
    place = {"utterance_index": 0, "sentence_index": 0}
    assert messages(found) == [
        {
            "type": "audio.start",
            **place,
            "sentence_text": "Hello there.",
            "format": "pcm",
            "sample_rate": 24000,
        },
        {
            "type": "audio.done",
            **place,
            "total_bytes": len(pcm),
            "error": False,
            "finish_reason": "stop",
        },
        {"type": "session.done", "utterance_index": 0, "total_sentences": 1},
    ]
    assert audio(found) == pcm


@pytest.mark.parametrize("stream_audio", [True, False])
@pytest.mark.parametrize("format", ["wav", "mp3", "opus", "aac", "flac", "pcm"])
def test_every_format_holds_the_same_audio(
    server: RunningServer, client: httpx.Client, format: str, stream_audio: bool
) -> None:
    with opened(server, seed=1, response_format=format, stream_audio=stream_audio) as talk:
        talk.send("input.text", text="Hello there.")
        talk.send("input.done")
        found = talk.until("session.done")
    whole = {} if stream_audio else {"stream": False}
    assert audio(found) == posted(client, "Hello there.", seed=1, response_format=format, **whole)
    if not stream_audio:
        assert sum(isinstance(each, bytes) for each in found) == 1
    samples, rate_hz = decoded(audio(found), format, 24000)
    assert len(samples) / rate_hz == pytest.approx(len("Hello there.") * 0.08, abs=0.15)


@pytest.mark.parametrize(
    ("granularity", "sentences"),
    [
        ("none", [TEXT]),
        ("sentence", ["Hello there, friends.", "How are you?"]),
        ("clause", ["Hello there,", "friends.", "How are you?"]),
    ],
)
def test_a_sentence_or_a_clause_can_be_a_file_of_its_own(
    server: RunningServer, client: httpx.Client, granularity: str, sentences: list[str]
) -> None:
    with opened(server, seed=1, split_granularity=granularity, speed=1.5) as talk:
        for letter in TEXT:
            talk.send("input.text", text=letter)
        talk.send("input.done")
        found = talk.until("session.done")
    if granularity != "none":
        starts = messages(found, "audio.start")
        assert [each["sentence_text"] for each in starts] == sentences
        assert [each["sentence_index"] for each in starts] == list(range(len(sentences)))
        parts = [posted(client, text, seed=1, speed=1.5) for text in sentences]
        assert audio(found) == b"".join(parts)
    assert messages(found, "session.done")[0]["total_sentences"] == len(sentences)
    assert [each["error"] for each in messages(found, "audio.done")] == [False] * len(sentences)


def test_utterances_come_in_order_however_early_they_are_sent(
    server: RunningServer, client: httpx.Client
) -> None:
    texts = [f"This is number {number}." for number in range(8)]
    with opened(server, seed=1) as talk:
        for text in texts:
            talk.send("input.text", text=text)
            talk.send("input.done")
        found = [talk.until("session.done") for _ in texts]
    for index, (text, received) in enumerate(zip(texts, found, strict=True)):
        assert audio(received) == posted(client, text, seed=1)
        assert {each["utterance_index"] for each in messages(received)} == {index}


def test_a_config_holds_until_the_next(server: RunningServer) -> None:
    with opened(server, voice="alto", sample_rate=8000) as talk:
        for config in (None, None, {"sample_rate": 16000, "stream_audio": True}):
            if config is not None:
                talk.send("session.config", **config)
            talk.send("input.text", text="Hello.")
            talk.send("input.done")
        starts = [messages(talk.until("session.done"), "audio.start")[0] for _ in range(3)]
        assert [each["sample_rate"] for each in starts] == [8000, 8000, 16000]
        assert [each["format"] for each in starts] == ["pcm", "pcm", "wav"]
        talk.send("input.text", text="Hello.")
        talk.send("session.config", voice="bass")
        assert "after its input.done" in messages(talk.until("error"))[-1]["message"]


def test_audio_can_come_as_json(server: RunningServer, client: httpx.Client) -> None:
    with opened(server, seed=1, word_timestamps=True) as talk:
        talk.send("input.text", text="Hello.")
        talk.send("input.done")
        found = talk.until("session.done")
    chunks = messages(found, "audio.chunk")
    assert [each["chunk_id"] for each in chunks] == list(range(len(chunks)))
    assert all(each["timestamps"] is None for each in chunks)
    pcm = b"".join(base64.b64decode(each["audio_b64"]) for each in chunks)
    assert pcm == posted(client, "Hello.", seed=1)
    assert not audio(found)


@pytest.mark.parametrize("task", ["custom_voice", "base"])
def test_late_text_gives_the_same_audio_in_any_pieces(
    task: str, start: Callable[[str], RunningServer]
) -> None:
    server = start(task)
    config: dict[str, Any] = {"seed": 1, "max_new_tokens": 24, "ignore_eos": True}
    if task == "base":
        config["speaker_embedding"] = [0.1] * 64
    with opened(server, **config) as talk:
        heard = []
        for size in (len(TEXT), 5, 1):
            for begin in range(0, len(TEXT), size):
                talk.send("input.text", text=TEXT[begin : begin + size])
            talk.send("input.done")
            heard.append(audio(talk.until("session.done")))
    assert len(heard[0]) == 23 * 1920 * 2
    assert heard[1] == heard[2] == heard[0]


def test_a_cloned_voice_speaks_late_text(base: RunningServer) -> None:
    with opened(base, ref_audio=RECORDING_URI, x_vector_only_mode=True, max_new_tokens=8) as talk:
        talk.send("input.text", text="Hello there.")
        talk.send("input.done")
        found = talk.until("session.done")
    assert audio(found)
    assert not messages(found, "error")


@pytest.mark.parametrize("is_complete", [True, False])
def test_after_a_clear_nothing_more_of_it_is_heard(
    server: RunningServer, client: httpx.Client, is_complete: bool
) -> None:
    tasks = server.tasks()
    with opened(server, seed=1) as talk:
        for _ in range(3):
            for _ in range(2):
                talk.send("input.text", text="A long text, of which little is heard. " * 20)
                if is_complete:
                    talk.send("input.done")
            talk.until(lambda each: isinstance(each, bytes))
            talk.send("input.clear")
            talk.until("input.cleared")
            talk.send("input.text", text="Hello.")
            talk.send("input.done")
            found = talk.until("session.done")
            assert audio(found) == posted(client, "Hello.", seed=1)
            assert len(messages(found)) == 3
            wait_until(lambda: server.num_open == 0)
    wait_until(lambda: server.tasks() <= tasks)


def test_a_close_is_a_promise_to_speak_what_is_left(
    server: RunningServer, client: httpx.Client
) -> None:
    with opened(server, seed=1) as talk:
        talk.send("input.text", text="Hello.")
        talk.send("input.done")
        talk.send("input.text", text="And bye.")
        talk.send("session.close")
        found = talk.rest()
        assert talk.close_code == 1000
    assert len(messages(found, "session.done")) == 2
    assert audio(found) == b"".join(posted(client, text, seed=1) for text in ("Hello.", "And bye."))


def test_an_utterance_without_text_has_no_file(server: RunningServer) -> None:
    with opened(server) as talk:
        talk.send("input.text", text=" \n")
        talk.send("input.done")
        assert talk.receive() == {
            "type": "session.done",
            "utterance_index": 0,
            "total_sentences": 0,
        }


@pytest.mark.slow  # minutes of speech
def test_a_long_text_in_many_files_is_spoken_to_its_end(server: RunningServer) -> None:
    num_sentences = 300
    with opened(server, split_granularity="sentence", speed=4.0) as talk:
        say(talk, "".join(f"No {number} ends! " for number in range(num_sentences)))
        found = talk.until("session.done")
    assert len(messages(found, "audio.done")) == num_sentences
    assert not messages(found, "error")


def test_a_served_name_may_be_an_alias() -> None:
    settings = Settings(model=ModelSettings(source="toy", name="org/toy"))
    with start_server(settings) as server, opened(server, model="tts-1") as talk:
        say(talk, "Hello.")
        assert audio(talk.until("session.done"))
