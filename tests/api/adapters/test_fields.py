"""Members of other vendors' requests and messages are served, without effect, or refused."""

import inspect
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from antiphon.api.adapters.deepgram import SpeakBody, SpeakQuery
from antiphon.api.schemas.elevenlabs import (
    DialogueBody,
    DialogueInput,
    ElevenlabsSpeechBody,
    SpeechQuery,
    StreamMessage,
    VoiceSettings,
)
from antiphon.api.schemas.field_rules import field_classes
from tests.decoding import error_of
from tests.servers import RunningServer
from tests.sockets import Client, connected, messages

SPEECH = "/v1/text-to-speech/alto"
OF_URLS = {
    *("voice_id", "enable_logging", "optimize_streaming_latency"),
    *("bit_rate", "callback_method", "mip_opt_out", "tag", "authorization"),
}
"""Parameters of addresses and headers that change nothing, as docs/adapters.md says."""


def _parameters(method: Any) -> set[str]:
    return {*inspect.signature(method).parameters} - {"self", "request_options", *OF_URLS}


def _known(*models: type[BaseModel]) -> set[str]:
    return {name for model in models for name in field_classes(model)}


def test_every_member_of_elevenlabs_is_known() -> None:
    types = pytest.importorskip("elevenlabs.types", reason="needs the extra 'clients'")
    speech = pytest.importorskip("elevenlabs.text_to_speech.client").TextToSpeechClient
    dialogue = pytest.importorskip("elevenlabs.text_to_dialogue.client").TextToDialogueClient
    assert _parameters(speech.convert) <= _known(ElevenlabsSpeechBody, SpeechQuery)
    assert _parameters(dialogue.convert) <= _known(DialogueBody, SpeechQuery)
    for model, theirs in (
        (StreamMessage, types.WebsocketTtsClientMessageMulti),
        (StreamMessage, types.InitializeConnection),
        (StreamMessage, types.SendText),
        (VoiceSettings, types.RealtimeVoiceSettings),
        (VoiceSettings, types.VoiceSettings),
        (DialogueInput, types.DialogueInput),
    ):
        fields = theirs.model_fields.items()
        assert {field.alias or name for name, field in fields} <= _known(model), theirs


def test_every_member_of_deepgram_is_known() -> None:
    client = pytest.importorskip("deepgram.speak.v1.audio.raw_client", reason="needs 'clients'")
    socket = pytest.importorskip("deepgram.speak.v1.raw_client")
    assert _parameters(client.RawAudioClient.generate) <= _known(SpeakQuery, SpeakBody)
    connect = _parameters(socket.RawV1Client.connect)
    assert connect <= _known(SpeakQuery)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (SPEECH, {"text": "Hi.", "voice_settings": {"sped": 2}}, "voice_settings.sped"),
        (SPEECH, {"text": "Hi.", "audio_effects": {"pan": 1}}, "audio_effects"),
        (SPEECH, {"text": "Hi.", "apply_language_text_normalization": True}, "apply_language"),
        ("/v1/text-to-dialogue", {"inputs": [{"text": "Hi.", "voice_id": "alto", "x": 1}]}, "inp"),
        ("/v1/speak", {"text": "Hi.", "speed": 2}, "speed"),
        ("/dev/dialogue", {"turns": [{"text": "Hi.", "voice": "alto", "sped": 1}]}, "turns.0.sped"),
    ],
)
def test_what_would_change_the_audio_is_refused(
    client: httpx.Client, path: str, body: dict[str, Any], param: str
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert param in answer.text
    if path.startswith("/dev"):
        assert error_of(answer, 400)["param"] == param


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (SPEECH, {"text": "Hi.", "previous_text": "Ho.", "voice_settings": {"stability": 1}}),
        (f"{SPEECH}/with-timestamps", {"text": "Hi.", "audio_effects": {}}),
        ("/v1/text-to-dialogue", {"inputs": [{"text": "Hi.", "voice_id": "alto"}]}),
        ("/dev/captioned_speech", {"input": "Hi.", "return_timestamps": False}),
        ("/dev/dialogue", {"turns": [{"text": "Hi.", "voice": "alto"}]}),
    ],
)
def test_an_unknown_member_of_a_body_is_named(
    client: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert "x-ignored-fields" not in answer.headers
    assert client.post(path, json={**body, "mood": 1}).headers["x-ignored-fields"] == "mood"


@pytest.mark.parametrize(
    ("path", "first", "types"),
    [
        ("/v1/audio/speech/stream", "session.config", ("input.done", "input.clear")),
        ("/v1/audio/speech/stream", "session.config", ("session.close",)),
        ("/v1/speak", None, ("Flush", "Clear", "Close")),
    ],
)
def test_an_unknown_member_of_a_message_is_refused(
    server: RunningServer, path: str, first: str | None, types: tuple[str, ...]
) -> None:
    with connected(server, path) as talk:
        if first is not None:
            talk.send(first)
        for type in types:
            talk.send(type, mood="good")
            assert "mood" in _refusal(talk)


def test_an_unknown_member_of_a_stream_is_refused(server: RunningServer) -> None:
    with connected(server, f"{SPEECH}/stream-input") as talk:
        talk.send(text=" ", mood="good")
        assert "mood" in _refusal(talk)
        talk.send(text=" ", generation_config={"chunk_length_schedule": [50]})
        talk.send(text="", try_trigger_generation=True)
        assert any(each.get("isFinal") for each in messages(talk.rest()))


def _refusal(talk: Client) -> str:
    def is_refusal(received: Any) -> bool:
        return "mood" in str(received) and "nknown" in str(received)

    return str(talk.until(is_refusal)[-1])
