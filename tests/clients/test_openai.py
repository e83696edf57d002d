"""OpenAI's own SDK against a running server, with a key, as its users have it."""

import json
from typing import Any, Literal, get_args

import openai
import pytest

from antiphon.config import ModelSettings, Settings
from tests import faulty
from tests.decoding import audio_of, decoded, events
from tests.servers import start_server

Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]


@pytest.fixture
def requests_seen(client: openai.OpenAI) -> list[str]:
    """The path of each HTTP request that ``client`` makes."""
    seen: list[str] = []
    client._client.event_hooks = {"request": [lambda request: seen.append(request.url.path)]}
    return seen


@pytest.mark.parametrize("format", get_args(Format))
def test_every_format(client: openai.OpenAI, format: Format) -> None:
    response = client.audio.speech.create(
        model="org/toy", voice="alloy", input="Hello.", response_format=format
    )
    samples, rate_hz = decoded(response.content, format, 24_000)
    assert len(samples) / rate_hz == pytest.approx(len("Hello.") * 2 * 0.04, abs=0.15)
    assert response.response.headers["x-request-id"]


def test_streaming_gives_the_same_bytes(client: openai.OpenAI) -> None:
    wanted: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": "Hello there."}
    wanted["extra_body"] = {"seed": 1}
    whole = client.audio.speech.create(**wanted).content
    with client.audio.speech.with_streaming_response.create(**wanted) as response:
        assert response.headers["content-type"] == "audio/mpeg"
        assert b"".join(response.iter_bytes()) == whole


def test_events_are_read_line_by_line(client: openai.OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="org/toy",
        voice={"id": "sine"},
        input="Hello.",
        response_format="pcm",
        stream_format="sse",
    ) as response:
        lines = list(response.iter_lines())
    found = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert found[-1]["type"] == "speech.audio.done"
    assert len(audio_of(found)) == len("Hello.") * 2 * 960 * 2
    assert found == events("\n".join(lines) + "\n")


def test_unknown_names_raise_not_found(client: openai.OpenAI, requests_seen: list[str]) -> None:
    with pytest.raises(openai.NotFoundError, match="sine, alto, bass") as voice:
        client.audio.speech.create(model="org/toy", voice="zzz", input="Hello.")
    assert (voice.value.code, voice.value.param) == ("voice_not_found", "voice")
    assert voice.value.type == "invalid_request_error"
    assert voice.value.request_id
    with pytest.raises(openai.NotFoundError, match="org/toy") as model:
        client.audio.speech.create(model="zzz", voice="sine", input="Hello.")
    assert (model.value.code, model.value.param) == ("model_not_found", "model")
    assert len(requests_seen) == 2


def test_wrong_fields_raise_bad_request_once(
    client: openai.OpenAI, requests_seen: list[str]
) -> None:
    with pytest.raises(openai.BadRequestError, match="at most 4") as error:
        client.audio.speech.create(model="org/toy", voice="alloy", input="Hello.", speed=9)
    assert (error.value.code, error.value.param) == ("invalid_value", "speed")
    with pytest.raises(openai.BadRequestError, match="cannot be empty"):
        client.audio.speech.create(model="org/toy", voice="alloy", input=" ")
    assert len(requests_seen) == 2, "a wrong request is not sent again"


def test_a_wrong_key_raises_authentication_error(client: openai.OpenAI) -> None:
    stranger = client.with_options(api_key="sk-wrong")
    with pytest.raises(openai.AuthenticationError) as error:
        stranger.audio.speech.create(model="org/toy", voice="alloy", input="Hello.")
    assert error.value.code == "invalid_api_key"


def test_models_are_listed_and_retrieved(client: openai.OpenAI) -> None:
    (listed,) = client.models.list()
    assert (listed.id, listed.owned_by) == ("org/toy", "antiphon")
    assert client.models.retrieve("org/toy") == listed
    assert client.models.retrieve("tts-1").id == "org/toy"
    with pytest.raises(openai.NotFoundError) as error:
        client.models.retrieve("zzz")
    assert error.value.code == "model_not_found"


@pytest.mark.parametrize(("ending", "num_requests"), [("engine error", 3), ("bug", 1)])
def test_only_what_may_pass_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, ending: str, num_requests: int
) -> None:
    faulty.register(monkeypatch)
    seen: list[str] = []
    with (
        start_server(Settings(model=ModelSettings(source="faulty"))) as server,
        openai.OpenAI(base_url=f"{server.base_url}/v1", api_key="any") as client,
    ):
        client._client.event_hooks = {"request": [lambda request: seen.append(request.url.path)]}
        monkeypatch.setattr(client, "_calculate_retry_timeout", lambda *_, **__: 0.0)
        with pytest.raises(openai.InternalServerError):
            client.audio.speech.create(
                model="faulty", voice="alloy", input=f"0 chunks, then {ending}"
            )
    assert len(seen) == num_requests


def test_a_break_midway_is_never_taken_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty.register(monkeypatch)
    with (
        start_server(Settings(model=ModelSettings(source="faulty"))) as server,
        openai.OpenAI(base_url=f"{server.base_url}/v1", api_key="any", max_retries=0) as client,
        pytest.raises(openai.APIConnectionError),
    ):
        client.audio.speech.create(model="faulty", voice="alloy", input="3 chunks, then bug")
