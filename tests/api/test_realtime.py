"""OpenAI's realtime messages, as clients send them who want text to be spoken."""

import base64
from typing import Any

import httpx
import pytest

from antiphon.errors import MemoryFullError
from antiphon.pipeline.speech.text_stream import Utterance
from tests.api.agent_talks import SPOKEN, message
from tests.servers import RunningServer, wait_until
from tests.sockets import Received, connected, messages

PATH = "/v1/realtime?model=tts-1"


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
    assert list(dict.fromkeys(names)) == SPOKEN
    assert all(names.count(name) == 1 for name in SPOKEN if name != "response.output_audio.delta")
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
        transcripts = messages(talk.until("response.done"), SPOKEN[7])
        assert transcripts[0]["transcript"] == "Hello.\n\nBye."
        talk.send("response.create", event_id="mine")
        (error,) = messages([talk.receive()], "error")
        assert error["error"]["event_id"] == "mine"
        assert error["error"]["param"] == "response.input"


def test_a_refused_response_leaves_the_text_to_the_next(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        talk.send("conversation.item.create", item=message("Hello."))
        talk.until("conversation.item.done")
        talk.send("input_text.append", text="Bye.")
        talk.send("response.create", response={"audio": {"output": {"voice": "nobody"}}})
        (refused,) = messages([talk.receive()], "error")
        assert refused["error"]["code"] == "voice_not_found"
        talk.send("response.create")
        talk.send("input_text.commit")
        (spoken,) = messages(talk.until("response.done"), SPOKEN[7])
    assert spoken["transcript"] == "Hello.\n\nBye."


def test_a_response_for_whose_text_there_is_no_memory_fails(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Utterance, text: str) -> None:
        raise MemoryFullError("There is no memory.")

    with connected(server, PATH) as talk:
        talk.receive()
        with monkeypatch.context() as patched:
            patched.setattr(Utterance, "push", refuse)
            talk.send("response.create", response={"input": [message("One.")]})
            failed = talk.until("response.done")[-1]
        talk.send("response.create", response={"input": [message("Two.")]})
        done = talk.until("response.done")[-1]
    assert [each["response"]["status"] for each in messages([failed, done])] == [
        "failed",
        "completed",
    ]


def test_open_text_may_begin_with_a_space(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        talk.send("input_text.append", text="\n")
        talk.send("response.create")
        talk.send("input_text.append", text="Hello.")
        talk.send("input_text.commit")
        found = talk.until("response.done")
    assert len(audio(found)) == len("Hello.") * 2 * 960 * 2


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


def test_a_response_follows_text_that_arrives_while_it_is_spoken(server: RunningServer) -> None:
    sentence = "So much to tell, and so little time. "
    with connected(server, PATH) as talk:
        talk.receive()
        talk.send("conversation.item.create", item=message("First."))
        talk.until("conversation.item.done")
        for _ in range(2):
            talk.send("input_text.append", text=sentence)
        talk.send("response.create")
        found = talk.until("response.output_audio.delta")
        talk.send("input_text.append", text=sentence)
        talk.send("input_text.commit")
        found += talk.until("response.done")
        items = [each["item"] for each in messages(found, "conversation.item.added")]
        talk.send("response.create")  # all has been spoken
        assert messages([talk.receive()], "error")
    text = "First.\n\n" + sentence * 3
    users = [each["content"][0]["text"] for each in items if each["role"] == "user"]
    assert users == [sentence * 3]
    deltas = messages(found, "response.output_audio_transcript.delta")
    assert len(deltas) > 1
    assert "".join(each["delta"] for each in deltas) == text
    (done,) = messages(found, "response.output_audio_transcript.done")
    assert done["transcript"] == text
    assert messages(found)[-1]["response"]["status"] == "completed"
    assert len(audio(found)) > len(sentence) * 2 * 960 * 2


def test_open_text_that_no_response_follows_is_an_item_once_it_is_committed(
    server: RunningServer,
) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        for text in ("Never ", "heard."):
            talk.send("input_text.append", text=text)
        talk.send("input_text.clear")
        for text in ("Hello ", "there."):
            talk.send("input_text.append", text=text)
        talk.send("input_text.commit")
        (done,) = messages([talk.until("conversation.item.done")[-1]])
        assert done["item"]["content"] == [{"type": "input_text", "text": "Hello there."}]
        talk.send("response.create")
        found = talk.until("response.done")
    assert messages(found, SPOKEN[7])[0]["transcript"] == "Hello there."
    assert len(audio(found)) == len("Hello there.") * 2 * 960 * 2


def test_a_cancelled_response_takes_the_open_text_along(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        talk.send("input_text.append", text="A long text, of which little is heard. " * 30)
        talk.send("response.create")
        talk.until("response.output_audio.delta")
        talk.send("input_text.clear")
        (refused,) = messages([talk.until("error")[-1]])
        assert "'response.cancel'" in refused["error"]["message"]
        talk.send("response.cancel")
        talk.until("response.done")
        wait_until(lambda: server.num_open == 0)
        talk.send("input_text.commit")
        (refused,) = messages([talk.receive()], "error")
        assert "no text to commit" in refused["error"]["message"]
        talk.send("input_text.append", text="Again.")
        talk.send("response.create")
        talk.send("input_text.commit")
        assert len(audio(talk.until("response.done"))) == len("Again.") * 2 * 960 * 2


def test_open_text_ends_with_a_response_that_failed(faulty_server: RunningServer) -> None:
    with connected(faulty_server, "/v1/realtime") as talk:
        talk.receive()
        talk.send("input_text.append", text="1 chunks, then engine error. " * 2)
        talk.send("response.create")
        talk.until("response.done")
        talk.send("input_text.append", text="1 chunks, then stop")
        talk.send("input_text.commit")
        talk.send("response.create")
        (done,) = messages([talk.until("response.done")[-1]])
    assert done["response"]["status"] == "completed"


def test_open_text_has_the_limit_of_a_response(server: RunningServer) -> None:
    piece = "Words and more words. " * 2000
    with connected(server, PATH) as talk:
        talk.receive()
        for _ in range(3):
            talk.send("input_text.append", text=piece)
        refused = messages(talk.until("error"))[-1]
        assert refused["error"]["code"] == "string_above_max_length"


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
        ({"type": "input_text.append"}, "text"),
        ({"type": "input_text.append", "text": 3}, "text"),
        ({"type": "input_text.commit", "text": "a"}, "text"),
        ({"type": "input_text.commit"}, "type"),
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
