"""OpenAI's realtime messages, as clients send them who want text to be spoken."""

import base64
from typing import Any

import httpx
import pytest

from tests.servers import RunningServer, wait_until
from tests.sockets import Received, connected, messages

PATH = "/v1/realtime?model=tts-1"
EVENTS = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
]


def message(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": text}],
    }


def audio(received: list[Received]) -> bytes:
    deltas = messages(received, "response.output_audio.delta")
    return b"".join(base64.b64decode(each["delta"]) for each in deltas)


def spoken_output(**output: Any) -> dict[str, Any]:
    return {"type": "realtime", "instructions": "Speak word for word.", "audio": {"output": output}}


def test_a_response_is_told_from_its_beginning_to_its_end(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        (created,) = messages([talk.receive()], "session.created")
        format = {"type": "audio/pcm", "rate": 24000}
        talk.send("session.update", session=spoken_output(voice="alto", format=format))
        (updated,) = messages([talk.receive()], "session.updated")
        assert updated["session"]["audio"]["output"]["voice"] == "alto"
        assert updated["session"]["id"] == created["session"]["id"]
        text = "Hello there."
        talk.send("response.create", response={"conversation": "none", "input": [message(text)]})
        found = talk.until("response.done")
    names = [each["type"] for each in messages(found)]
    assert list(dict.fromkeys(names)) == EVENTS
    assert all(names.count(name) == 1 for name in EVENTS if name != "response.output_audio.delta")
    assert len({each["event_id"] for each in messages(found)}) == len(found)
    ids = {each["response_id"] for each in messages(found) if "response_id" in each}
    done = messages(found)[-1]["response"]
    assert ids == {done["id"]}
    assert done["status"] == "completed"
    assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": text}]
    deltas = messages(found, "response.output_audio_transcript.delta")
    assert "".join(each["delta"] for each in deltas) == text
    assert done["usage"]["total_tokens"] == len(text) * 3
    assert len(audio(found)) == len(text) * 2 * 960 * 2


def test_items_are_said_once(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        for text in ("Hello.", "Bye."):
            talk.send("conversation.item.create", item=message(text))
            talk.until("conversation.item.done")
        talk.send("response.create")
        transcripts = messages(talk.until("response.done"), EVENTS[7])
        assert transcripts[0]["transcript"] == "Hello.\n\nBye."
        talk.send("response.create", event_id="mine")
        (error,) = messages([talk.receive()], "error")
        assert error["error"]["event_id"] == "mine"
        assert error["error"]["param"] == "response.input"


def test_responses_come_in_order_and_can_be_cancelled(server: RunningServer) -> None:
    long = "A long text, of which little is heard. " * 30
    with connected(server, PATH) as talk:
        talk.receive()
        for text in ("One.", long, "Never heard."):
            talk.send("response.create", response={"input": [message(text)]})
        first = talk.until("response.done")[-1]
        talk.until("response.output_audio.delta")
        talk.send("response.cancel")
        cancelled = [talk.until("response.done") for _ in range(2)]
        wait_until(lambda: server.num_open == 0)
        talk.send("response.create", response={"input": [message("Again.")]})
        again = talk.until("response.done")
    states = [messages([each])[0]["response"]["status"] for each in (first, again[-1])]
    assert states == ["completed", "completed"]
    for found in cancelled:
        assert messages(found)[-1]["response"]["status"] == "cancelled"
    assert not audio(cancelled[1])
    assert len(audio(again)) == len("Again.") * 2 * 960 * 2


@pytest.mark.parametrize("type", ["audio/pcmu", "audio/pcma", "g711_ulaw"])
def test_a_telephone_hears_it(server: RunningServer, type: str) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        format: Any = {"type": type} if "/" in type else type
        talk.send("session.update", session=spoken_output(format=format))
        assert messages([talk.receive()], "session.updated")
        talk.send("response.create", response={"input": [message("Hello.")]})
        found = talk.until("response.done")
    assert len(audio(found)) == pytest.approx(len("Hello.") * 2 * 320, abs=16)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"type": "input_audio_buffer.append", "audio": ""}, "type"),
        ({"type": "session.update", "session": {"voice": "nobody"}}, "voice"),
        ({"type": "session.update", "session": spoken_output(speed=9)}, None),
        ({"type": "session.update", "session": spoken_output(format={"type": "mp3"})}, None),
        ({"type": "response.create", "response": {"input": 3}}, "response.input"),
        ({"type": "conversation.item.create"}, "item"),
        ({}, "type"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told(
    server: RunningServer, wrong: dict[str, Any], param: str | None
) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        talk.send(**wrong)
        (error,) = messages([talk.receive()], "error")
        assert error["error"]["type"] == "invalid_request_error"
        assert error["error"]["param"] == param or param is None
        talk.send("response.create", response={"input": [message("Hello.")]})
        assert audio(talk.until("response.done"))


def test_what_fails_is_told(faulty_server: RunningServer) -> None:
    with connected(faulty_server, "/v1/realtime") as talk:
        talk.receive()
        for text in ("1 chunks, then engine error", "1 chunks, then stop"):
            talk.send("response.create", response={"input": [message(text)]})
        failed, spoken = (talk.until("response.done")[-1] for _ in range(2))
    assert not isinstance(failed, bytes)
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["status_details"]["error"]["code"] == "engine_error"
    assert not isinstance(spoken, bytes)
    assert spoken["response"]["status"] == "completed"


def test_an_unknown_model_is_refused_before_the_handshake(client: httpx.Client) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    answer = client.get("/v1/realtime?model=nothing", headers=upgrade)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
