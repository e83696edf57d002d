"""A realtime message that cannot be followed is answered with an error that names the field."""

from typing import Any

import pytest
from openai.types import realtime as openai_realtime
from openai.types.realtime.realtime_conversation_item_assistant_message_param import (
    Content as AssistantContent,
)
from openai.types.realtime.realtime_conversation_item_user_message_param import (
    Content as UserContent,
)
from pydantic import BaseModel

from antiphon.api.schemas import realtime, realtime_agent
from antiphon.api.schemas.field_rules import field_classes
from antiphon.api.schemas.realtime_fields import InputAudio
from tests.servers import RunningServer
from tests.sockets import Client, connected, messages

MODELS = {"speech": "/v1/realtime?model=tts-1", "agent": "/v1/realtime?model=toy"}
TYPES: list[tuple[type[BaseModel], type[BaseModel], Any]] = [
    (
        realtime.SpeakingSession,
        realtime_agent.AgentSession,
        openai_realtime.RealtimeSessionCreateRequestParam,
    ),
    (
        realtime.Response,
        realtime_agent.AgentReply,
        openai_realtime.RealtimeResponseCreateParamsParam,
    ),
    (
        realtime.SessionAudio,
        realtime_agent.AgentAudio,
        openai_realtime.RealtimeAudioConfigParam,
    ),
    (
        realtime.Output,
        realtime_agent.AgentOutput,
        openai_realtime.RealtimeAudioConfigOutputParam,
    ),
    (InputAudio, InputAudio, openai_realtime.RealtimeAudioConfigInputParam),
    (
        realtime.Item,
        realtime_agent.AgentItem,
        openai_realtime.RealtimeConversationItemUserMessageParam,
    ),
    (
        realtime.Item,
        realtime_agent.AgentItem,
        openai_realtime.RealtimeConversationItemFunctionCallOutputParam,
    ),
    (realtime.ContentPart, realtime_agent.AgentContent, UserContent),
    (realtime.ContentPart, realtime_agent.AgentContent, AssistantContent),
    (
        realtime.ItemCreate,
        realtime_agent.AgentItemCreate,
        openai_realtime.ConversationItemCreateEventParam,
    ),
    (
        realtime.ResponseCancel,
        realtime.ResponseCancel,
        openai_realtime.ResponseCancelEventParam,
    ),
]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "session"),
    ({"session": "x"}, "session"),
    ({"session": {"model": "nobody"}}, "session.model"),
    ({"session": {"model": 5}}, "session.model"),
    ({"session": {"voise": "alto"}}, "session.voise"),
    ({"session": {"audio": {"output": {"sped": 2}}}}, "session.audio.output.sped"),
    (
        {"session": {"audio": {"output": {"format": {"type": "audio/pcm", "hz": 1}}}}},
        "session.audio.output.format.hz",
    ),
    ({"session": {"audio": {"input": {"turns": None}}}}, "session.audio.input.turns"),
    ({"session": {"type": "transcription"}}, "session.type"),
    ({"session": {"prompt": {"id": "p"}}}, "session.prompt"),
    ({"session": {"reasoning": {"effort": "high"}}}, "session.reasoning"),
    ({"session": {"voice": {"id": "alto", "x": 1}}}, "session.voice.x"),
    ({"sesion": {}}, "sesion"),
    ({"session": {}, "previous": 1}, "previous"),
]
EMPTY: dict[str, Any] = {
    "type": "realtime",
    "tools": [],
    "tool_choice": "none",
    "tracing": None,
    "truncation": "auto",
    "turn_detection": None,
    "parallel_tool_calls": True,
    "input_audio_format": "pcm16",
    "audio": {"input": {"turn_detection": {"type": "semantic_vad"}, "transcription": None}},
}


def answer_to(talk: Client, type: str, **members: Any) -> dict[str, Any]:
    talk.send(type, event_id="mine", **members)
    return messages(talk.until(lambda each: True))[-1]


@pytest.mark.parametrize("index", [0, 1], ids=["speech", "agent"])
def test_every_member_of_openai_is_known(index: int) -> None:
    for *models, typed in TYPES:
        known = {*field_classes(models[index]), "type"}
        assert {*typed.__required_keys__, *typed.__optional_keys__} <= known, typed


@pytest.mark.parametrize("kind", MODELS)
def test_a_wrong_update_is_an_error_and_changes_nothing(server: RunningServer, kind: str) -> None:
    with connected(server, MODELS[kind]) as talk:
        talk.receive()
        output = {"voice": "bass", "speed": 2}
        kept = answer_to(talk, "session.update", session={"audio": {"output": output}})["session"]
        for message, param in WRONG:
            both = {**message}
            if isinstance(both.get("session"), dict):
                both["session"] = {"voice": "alto", **both["session"]}
            error = answer_to(talk, "session.update", **both)
            assert error["type"] == "error", (message, error)
            assert (error["error"]["param"], error["error"]["event_id"]) == (param, "mine")
        updated = answer_to(talk, "session.update", session=EMPTY)
        assert updated["type"] == "session.updated", updated
        assert updated["session"] == kept


@pytest.mark.parametrize("kind", MODELS)
def test_the_session_s_own_model_is_no_other(server: RunningServer, kind: str) -> None:
    with connected(server, MODELS[kind]) as talk:
        talk.receive()
        for name in ("toy", "tts-1"):
            updated = answer_to(talk, "session.update", session={"model": name})
            assert updated["type"] == "session.updated", updated


@pytest.mark.parametrize(
    ("type", "members", "param"),
    [
        ("session.update", {"session": {"output_modalities": ["text"]}}, "session."),
        ("session.update", {"session": {"max_output_tokens": 5}}, "session.max_output_tokens"),
        ("session.update", {"session": {"tools": [{}]}}, "session.tools"),
        ("conversation.item.create", {"item": {"content": [{"audio": "x"}]}}, "item.content.0."),
        ("conversation.item.create", {"item": {"contents": []}}, "item.contents"),
        ("response.create", {"response": {"inputs": []}}, "response.inputs"),
        ("response.cancel", {"response_id": "none"}, "response_id"),
    ],
)
def test_what_a_model_that_only_speaks_cannot_do_is_refused(
    server: RunningServer, type: str, members: dict[str, Any], param: str
) -> None:
    with connected(server, MODELS["speech"]) as talk:
        talk.receive()
        error = answer_to(talk, type, **members)["error"]
        assert error["param"].startswith(param)


def test_an_id_that_cannot_be_repeated_is_refused(server: RunningServer) -> None:
    for path in MODELS.values():
        with connected(server, path) as talk:
            talk.receive()
            talk.connection.send('{"type":"session.update","session":{},"event_id":"\\ud800"}')
            error = messages(talk.until("error"))[-1]["error"]
            assert (error["param"], error["event_id"]) == ("event_id", None)


def test_an_unknown_member_is_answered_with_the_nearest_name(server: RunningServer) -> None:
    with connected(server, MODELS["speech"]) as talk:
        talk.receive()
        error = answer_to(talk, "session.update", session={"voise": "alto"})["error"]
        assert error["message"] == "Unknown field: 'session.voise'. Did you mean 'voice'?"


def test_the_names_of_the_first_edition_are_followed(server: RunningServer) -> None:
    with connected(server, MODELS["speech"]) as talk:
        talk.receive()
        session = {"voice": "bass", "speed": 1.5, "output_audio_format": "g711_ulaw"}
        output = answer_to(talk, "session.update", session=session)["session"]["audio"]["output"]
        assert output == {
            "voice": "bass",
            "speed": 1.5,
            "format": {"type": "audio/pcmu", "rate": 8000},
        }
