"""A realtime agent tells what is wrong, what fails and what is too much, and goes on."""

from typing import Any

import pytest

from antiphon.api.realtime_agent import MAX_REPLIES
from tests.api.agent_talks import GREEDY, LONG, PATH, answer, message, refused, say, text_of
from tests.servers import RunningServer, wait_until
from tests.sockets import connected, messages


def replying(items: list[Any], **response: Any) -> dict[str, Any]:
    return {"response": {"input": items, **response}}


def test_one_answer_at_a_time(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        say(talk, LONG)
        talk.send("response.create", response=GREEDY)
        talk.until("response.output_audio.delta")
        talk.send("response.create", event_id="two")
        error = messages(talk.until("error"), "error")[-1]["error"]
        assert error["code"] == "conversation_already_has_active_response"
        talk.send("response.cancel")
        talk.until("response.done")
        assert refused(talk, "response.cancel")["code"] == "response_cancel_not_active"


@pytest.mark.parametrize(
    ("type", "members", "param"),
    [
        ("input_audio_buffer.append", {"audio": ""}, "type"),
        ("session.update", {"session": {"voice": "nobody"}}, "voice"),
        ("session.update", {"session": {"output_modalities": ["image"]}}, "output_modalities"),
        ("session.update", {"session": {"tools": [{"type": "function"}]}}, "tools"),
        ("conversation.item.create", {"item": {"type": "function_call"}}, "item.type"),
        ("conversation.item.create", {"item": message("Hi", role="tool")}, "item.role"),
        (
            "conversation.item.create",
            {"item": {"role": "user", "content": [{"type": "input_audio", "audio": ""}]}},
            "item.content",
        ),
        (
            "conversation.item.create",
            {"item": message("Hi"), "previous_item_id": "no"},
            "previous_item_id",
        ),
        ("conversation.item.retrieve", {"item_id": "no"}, "item_id"),
        ("conversation.item.delete", {"item_id": "no"}, "item_id"),
        ("conversation.item.truncate", {"item_id": "no", "audio_end_ms": 3}, "item_id"),
        ("conversation.item.truncate", {"item_id": "no", "audio_end_ms": -3}, "audio_end_ms"),
        ("response.create", {}, "response.input"),
        ("response.create", replying([message("x")], conversation="no"), "response.conversation"),
        (
            "response.create",
            replying([{"type": "item_reference"}]),
            "response.input",
        ),
        (
            "response.create",
            replying([message("x")], temperature=9),
            "response.temperature",
        ),
        (
            "response.create",
            replying([message("x")], max_output_tokens=0),
            "response.max_output_tokens",
        ),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(
    server: RunningServer, type: str, members: Any, param: str
) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        assert refused(talk, type, **members)["param"] == param
        say(talk, "Hello.")
        assert text_of(answer(talk, output_modalities=["text"])) == "You said: Hello."


def test_what_fails_is_told(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        say(talk, "x" * 9000)  # longer than the model's context
        done = answer(talk, output_modalities=["text"])[-1]["response"]
        assert done["status"] == "failed"
        assert done["status_details"]["error"]["code"] == "context_length_exceeded"
        assert done["output"] == []


def test_a_text_where_a_list_must_be_is_explained(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        error = refused(talk, "response.create", response={"input": "Hello."})
        assert error["message"] == "Invalid 'response.input': 'Hello.'. It must be a list."


def test_a_message_without_an_id_is_refused_without_one(server: RunningServer) -> None:
    for path in (PATH, "/v1/realtime?model=tts-1"):
        with connected(server, path) as talk:
            talk.receive()
            refused(talk, "no.such.type")
            talk.connection.send("{")
            (error,) = messages([talk.receive()], "error")
            assert error["error"]["code"] == "invalid_json"
            assert error["error"]["event_id"] is None


def test_responses_at_once_are_counted(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        say(talk, LONG * 2)
        for _ in range(MAX_REPLIES):
            talk.send("response.create", response={**GREEDY, "conversation": "none"})
        talk.send("response.create", response={**GREEDY, "conversation": "none"})
        error = messages(talk.until("error"), "error")[-1]["error"]
        assert error["code"] == "too_many_active_responses"
    wait_until(lambda: server.num_open == 0)
