"""Errors to other vendors' clients: their fields, their shape, and OpenAI's object beside it."""

from typing import Any

import httpx
import pytest

from antiphon.api.adapters.errors import DEEPGRAM, ELEVENLABS, service_of
from antiphon.api.errors import WireError
from antiphon.config import ModelSettings, ServerSettings, Settings
from tests.servers import RunningServer, start_server
from tests.sockets import connected, messages

LONG = "long " * 30_000
SPEECH = "/v1/text-to-speech/alto"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (SPEECH, {"text": LONG}, "text"),
        (f"{SPEECH}/stream", {"text": " "}, "text"),
        (f"{SPEECH}/with-timestamps", {"text": LONG}, "text"),
        (f"{SPEECH}/stream/with-timestamps", {"text": LONG}, "text"),
        (SPEECH, {}, "text"),
        (SPEECH, {"text": "Hi.", "model_id": "nothing"}, "model_id"),
        ("/v1/text-to-speech/input", {"text": "Hi."}, "voice_id"),
        (SPEECH, {"text": "Hi.", "voice_settings": {"speed": 9}}, "voice_settings.speed"),
        (SPEECH, {"text": "Hi.", "audio_effects": {"a": 1}}, "audio_effects"),
        ("/v1/text-to-dialogue", {"inputs": []}, "inputs"),
        (
            "/v1/text-to-dialogue",
            {"inputs": [{"text": " ", "voice_id": "alto"}]},
            "inputs.0.text",
        ),
        ("/v1/text-to-dialogue", {"inputs": [{"text": "Hi.", "voice_id": "x"}]}, "voice_id"),
        ("/v1/text-to-dialogue", {"inputs": [{"text": LONG, "voice_id": "alto"}]}, "text"),
    ],
)
def test_elevenlabs_reads_detail(
    client: httpx.Client, path: str, body: dict[str, Any], param: str
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code in (400, 404)
    told = answer.json()
    assert set(told) == {"error", "detail"}
    assert told["error"]["param"] == param
    assert told["detail"] == {"status": told["error"]["code"], "message": told["error"]["message"]}
    assert "Invalid 'input'" not in told["error"]["message"]
    assert answer.headers["content-length"] == str(len(answer.content))


@pytest.mark.parametrize(
    ("query", "body", "param"),
    [
        ("", {"text": LONG}, "text"),
        ("", {"text": " "}, "text"),
        ("", {}, "text"),
        ("?model=nobody", {"text": "Hi."}, "model"),
        ("?sample_rate=1", {"text": "Hi."}, "sample_rate"),
        ("?encoding=mp3&container=wav", {"text": "Hi."}, "container"),
        ("?encoding=opus&container=wav", {"text": "Hi."}, "container"),
        ("?callback=http://127.0.0.1", {"text": "Hi."}, "callback"),
    ],
)
def test_deepgram_reads_err_msg(
    client: httpx.Client, query: str, body: dict[str, Any], param: str
) -> None:
    answer = client.post(f"/v1/speak{query}", json=body, headers={"X-Request-Id": "abc"})
    assert answer.status_code in (400, 404)
    told = answer.json()
    assert told["error"]["param"] == param
    assert told["err_msg"] == told["error"]["message"]
    assert told["err_code"] in ("Bad Request", "Not Found")
    assert told["request_id"] == answer.headers["x-request-id"] == "abc"
    assert "'input'" not in told["err_msg"]


def test_sockets_name_the_fields_of_their_protocol(server: RunningServer) -> None:
    with connected(server, "/v1/speak") as talk:
        talk.receive()
        talk.send("Speak", text=LONG)
        (warning,) = messages([talk.receive()], "Warning")
        assert warning["description"].startswith("Invalid 'text':")
    with connected(server, f"{SPEECH}/stream-input") as talk:
        talk.send(text=LONG)
        (told,) = messages([talk.receive()])
        assert told["error"].startswith("Invalid 'text':")


def test_what_the_client_has_sent_is_not_renamed() -> None:
    error = WireError(
        status=404, message="Invalid voice: 'voice'. Leave 'voice' out.", type="t", param="voice"
    )
    renamed = ELEVENLABS.renamed(error)
    assert renamed.message == "Invalid voice: 'voice'. Leave 'voice_id' out."
    assert (renamed.param, DEEPGRAM.renamed(error).param) == ("voice_id", "model")
    other = WireError(status=400, message="Invalid 'seed'.", type="t", param="seed")
    assert ELEVENLABS.renamed(other) == other


@pytest.mark.parametrize("path", ["/v1/voices", "/v1/speak", "/v1/user", SPEECH])
def test_a_wrong_method_and_a_wrong_key_have_the_shape_too(path: str) -> None:
    settings = Settings(
        model=ModelSettings(source="toy"), server=ServerSettings(api_keys=("sk-test",))
    )
    member = "err_msg" if path == "/v1/speak" else "detail"
    with start_server(settings) as running, httpx.Client(base_url=running.base_url) as client:
        assert member in client.post(path, json={}).json()
        answer = client.put(path, headers={"Authorization": "Bearer sk-test"})
        assert answer.status_code == 405
        assert member in answer.json()


@pytest.mark.parametrize(
    "path", ["/v1/audio/speech", "/v1/voicesomething", "/v1/models", "/v1/speaker", "/"]
)
def test_our_own_api_is_left_alone(path: str) -> None:
    assert service_of({"type": "http", "path": path, "headers": []}) is None
