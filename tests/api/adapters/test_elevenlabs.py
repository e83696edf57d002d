"""ElevenLabs' streams and requests, spoken by us."""

import base64
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.decoding import decoded
from tests.servers import RunningServer, wait_until
from tests.sockets import Received, connected, messages

VOICE = "bIHbv24MWmeRgasZH58o"
PATH = f"/v1/text-to-speech/{VOICE}"
MULTI = f"{PATH}/multi-stream-input?model_id=eleven_flash_v2_5&output_format=pcm_24000"
SINGLE = f"{PATH}/stream-input?output_format=pcm_24000&language_code=en"


def num_bytes(text: str) -> int:
    return len(text) * 2 * 960 * 2


def audio(received: list[Received], context: str | None = None) -> bytes:
    found = [each for each in messages(received) if each.get("contextId") == context]
    return b"".join(base64.b64decode(each["audio"]) for each in found if each.get("audio"))


def is_final(received: Received) -> bool:
    return not isinstance(received, bytes) and received.get("isFinal") is True


def test_an_empty_text_ends_a_stream(server: RunningServer) -> None:
    with connected(server, SINGLE) as talk:
        talk.send(text=" ", voice_settings={"stability": 0.5}, xi_api_key="none")
        for word in ("Hello ", "there."):
            talk.send(text=word, try_trigger_generation=True)
        talk.send(text="")
        found = talk.rest()
        assert talk.close_code == 1000
    assert len(audio(found)) == num_bytes("Hello there.")
    assert [is_final(each) for each in found] == [False] * (len(found) - 1) + [True]
    assert all("contextId" not in each for each in messages(found))


def test_a_flush_speaks_without_waiting_for_more(server: RunningServer) -> None:
    with connected(server, SINGLE) as talk:
        talk.send(text="Hello", flush=True)
        heard = 0
        while heard < num_bytes("Hello"):
            heard += len(audio([talk.receive()]))
        talk.send(text="and more")
        talk.send(text="")
        assert len(audio(talk.rest())) == num_bytes("and more")


def test_contexts_are_spoken_side_by_side(server: RunningServer) -> None:
    texts = {"a": "Hello there.", "b": "Me too.", "c": ""}
    with connected(server, MULTI) as talk:
        for context, text in texts.items():
            talk.send(text=" ", context_id=context, voice_settings={})
            for letter in text:
                talk.send(text=letter, context_id=context)
        talk.send(text="")
        talk.send(text="", context_id="a")
        for context in texts:
            talk.send(context_id=context, flush=True)
            talk.send(context_id=context, close_context=True)
        found: list[Received] = []
        while sum(map(is_final, found)) < len(texts):
            found.append(talk.receive())
        for context, text in texts.items():
            assert len(audio(found, context)) == num_bytes(text)
        talk.send(text="Again.", context_id="a")
        talk.send(close_socket=True)
        again = talk.rest()
        assert talk.close_code == 1000
        assert len(audio(again, "a")) == num_bytes("Again.")
    finals = Counter(each["contextId"] for each in messages(found) if is_final(each))
    assert finals == {"a": 1, "b": 1, "c": 1}
    assert is_final(again[-1])


def test_too_many_contexts_are_refused(server: RunningServer) -> None:
    with connected(server, MULTI) as talk:
        for number in range(17):
            talk.send(text=" ", context_id=str(number))
        error = messages([talk.receive()])[0]
        assert error["code"] == "rate_limit_exceeded"
        assert "16" in error["error"]


def test_what_fails_is_told_and_ends_its_context(faulty_server: RunningServer) -> None:
    with connected(faulty_server, MULTI) as talk:
        talk.send(text="1 chunks, then engine error", context_id="a")
        talk.send(context_id="a", close_context=True)
        found = talk.until(is_final)
        talk.send(voice_settings={})
        assert messages([talk.receive()])[0]["code"] == "missing_required_parameter"
    (error,) = [each for each in messages(found) if each.get("error")]
    assert error["contextId"] == "a"
    assert error["code"] == "engine_error"


@pytest.mark.parametrize("path", [SINGLE, MULTI])
def test_a_client_that_leaves_frees_everything(server: RunningServer, path: str) -> None:
    tasks = server.tasks()
    with connected(server, path) as talk:
        for context in "abc":
            talk.send(text="A long text, of which little is heard. " * 30, context_id=context)
        talk.send(context_id="b", close_context=True)
        talk.receive()
    wait_until(lambda: server.num_open == 0)
    wait_until(lambda: server.tasks() <= tasks)


@pytest.mark.parametrize(
    ("wanted", "format"),
    [("mp3_44100_128", "mp3"), ("opus_48000_64", "opus"), ("wav_16000", "wav")],
)
@pytest.mark.parametrize("suffix", ["", "/stream"])
def test_http_speaks_in_the_format_that_is_wanted(
    client: httpx.Client, suffix: str, wanted: str, format: str
) -> None:
    body = {"text": "Hello there.", "model_id": "eleven_flash_v2_5", "voice_settings": {"speed": 1}}
    body |= {"language_code": "en-US"}
    answer = client.post(f"{PATH}{suffix}?output_format={wanted}", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("audio/")
    samples, rate_hz = decoded(answer.content, format, 0)
    assert len(samples) / rate_hz == pytest.approx(len("Hello there.") * 0.08, abs=0.15)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/text-to-speech/nobody", {"text": "Hello."}, 404),
        (PATH, {"text": "Hello.", "model_id": "nothing"}, 404),
        (f"{PATH}?output_format=mp3", {"text": "Hello."}, 400),
        (f"{PATH}?output_format=pcm_99000", {"text": "Hello."}, 400),
        (PATH, {"text": " "}, 400),
        (PATH, {"text": "Hello.", "language_code": "tlh"}, 400),
        (PATH, {"text": "Hello.", "voice_settings": {"speed": 9}}, 400),
    ],
)
def test_http_refuses_what_is_wrong(
    client: httpx.Client, path: str, body: dict[str, Any], status: int
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_voices_are_listed(client: httpx.Client) -> None:
    listed = client.get("/v1/voices").json()
    assert [each["voice_id"] for each in listed["voices"]] == ["sine", "alto", "bass"]
    assert all(each["name"] and each["category"] == "premade" for each in listed["voices"])
