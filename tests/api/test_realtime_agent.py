"""An agent on /v1/realtime: answers that are spoken, interrupted and forgotten, and refusals."""

import base64
from typing import Any

import numpy as np
import pytest

from antiphon.api.realtime_agent import MAX_REPLIES
from antiphon.config import ModelSettings, Settings
from antiphon.families.toy.vocabulary import tokens_of
from tests.api.agent_talks import GREEDY, LONG, PATH, SPOKEN, answer, message, refused, say, text_of
from tests.servers import RunningServer, start_server, wait_until
from tests.sockets import Received, connected, messages

WRITTEN = [
    *SPOKEN[:4],
    "response.output_text.delta",
    "response.output_text.done",
    *SPOKEN[8:],
]


def pcm(received: list[Received]) -> Any:
    deltas = messages(received, "response.output_audio.delta")
    return np.frombuffer(b"".join(base64.b64decode(each["delta"]) for each in deltas), "<i2")


def test_an_answer_is_spoken_and_told_from_beginning_to_end(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        (created,) = messages([talk.receive()], "session.created")
        assert created["session"]["output_modalities"] == ["audio"]
        talk.send(
            "session.update",
            session={"type": "realtime", "audio": {"output": {"voice": "alto"}}, "tools": []},
        )
        (updated,) = messages([talk.receive()], "session.updated")
        assert updated["session"]["audio"]["output"]["voice"] == "alto"
        asked = say(talk, "Hello **there**.")
        found = answer(talk)
        names = [each["type"] for each in found]
        assert list(dict.fromkeys(names)) == SPOKEN
        once = {name for name in SPOKEN if not name.endswith(".delta")}
        assert all(names.count(name) == 1 for name in once)
        assert names.count("response.output_audio_transcript.delta") > 5
        assert len({each["event_id"] for each in found}) == len(found)
        deltas = messages(list(found), "response.output_audio_transcript.delta")
        assert "".join(each["delta"] for each in deltas) == "You said: Hello **there**."
        done = found[-1]["response"]
        assert done["status"] == "completed"
        assert done["output"][0]["content"] == [
            {"type": "output_audio", "transcript": "You said: Hello **there**."}
        ]
        usage = done["usage"]
        assert usage["output_token_details"]["audio_tokens"] > 0
        num_tokens = len(tokens_of("You said: Hello **there**."))
        assert usage["output_token_details"]["text_tokens"] == num_tokens
        added = messages(list(found), "conversation.item.added")[0]
        assert added["previous_item_id"] == asked["item"]["id"]
        assert len(pcm(list(found))) == len("You said: Hello there.") * 2 * 960, "without marks"
        say(talk, "And on.")
        assert text_of(answer(talk)) == "You said: And on."


def test_an_answer_of_text_and_one_beside_the_conversation(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        say(talk, "Kept.")
        beside = answer(
            talk,
            conversation="none",
            input=[message("Not kept.")],
            output_modalities=["text"],
            metadata={"topic": "x"},
        )
        names = list(dict.fromkeys(each["type"] for each in beside))
        assert names == [name for name in WRITTEN if not name.startswith("conversation.")]
        assert text_of(beside) == "You said: Not kept."
        assert beside[-1]["response"]["metadata"] == {"topic": "x"}
        assert beside[-1]["response"]["conversation_id"] is None
        kept = answer(
            talk, output_modalities=["text"], max_output_tokens=len(tokens_of("You said: Kept"))
        )
        assert list(dict.fromkeys(each["type"] for each in kept)) == WRITTEN
        assert kept[-1]["response"]["status"] == "incomplete"
        assert kept[-1]["response"]["status_details"]["reason"] == "max_output_tokens"
        assert text_of(kept) == "You said: Kept"


def test_the_first_edition_of_the_protocol_and_ways_to_speak(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        talk.send("session.update", session={"modalities": ["text"], "voice": "alto"})
        (updated,) = messages([talk.receive()], "session.updated")
        assert updated["session"]["output_modalities"] == ["text"]
        say(talk, "A 😀 b.")
        assert text_of(answer(talk)) == "You said: A 😀 b."
        output: dict[str, Any] = {"format": "g711_ulaw", "speed": 2.0}
        quick, named = (
            answer(
                talk,
                modalities=["text", "audio"],
                audio={"output": {**output, "speakable": speakable}},
                input=[message("A 😀 b.")],
                conversation="none",
            )
            for speakable in ({}, {"emoji": "say"})
        )
        told = quick[-1]["response"]["audio"]["output"]
        assert told["format"] == {"type": "audio/pcmu", "rate": 8000}
        assert told["speed"] == 2.0
        for found, said in ((quick, "You said: A b."), (named, "You said: A grinning face b.")):
            num_bytes = 2 * len(pcm(list(found)))
            assert num_bytes == pytest.approx(len(said) * 320, abs=32)


def test_items_are_kept_changed_and_forgotten(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        say(talk, "First.", id="a")
        say(talk, "Third.", id="c")
        talk.send("conversation.item.create", item=message("Second.", id="b"), previous_item_id="a")
        assert messages(talk.until("conversation.item.done"))[-1]["previous_item_id"] == "a"
        talk.send("conversation.item.create", item=message("Zero", id="0"), previous_item_id="root")
        assert messages(talk.until("conversation.item.done"))[-1]["previous_item_id"] is None
        talk.send("conversation.item.delete", item_id="c")
        assert messages([talk.receive()], "conversation.item.deleted")[0]["item_id"] == "c"
        talk.send("conversation.item.retrieve", item_id="b")
        (retrieved,) = messages([talk.receive()], "conversation.item.retrieved")
        assert retrieved["item"]["content"] == [{"type": "input_text", "text": "Second."}]
        assert text_of(answer(talk, output_modalities=["text"])) == "You said: Second."
        reference = [{"type": "item_reference", "id": "a"}]
        said = answer(talk, output_modalities=["text"], input=reference, conversation="none")
        assert text_of(said) == "You said: First."


def test_interrupting_stops_both_models_and_forgets_what_was_not_heard(
    server: RunningServer,
) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        say(talk, LONG)
        talk.send("response.create", response=GREEDY)
        begun = talk.until("response.output_audio.delta")
        talk.send("response.cancel")
        rest = talk.until("response.done")
        assert server.num_open == 0, "both have stopped by then"
        done = messages(rest)[-1]["response"]
        assert done["status"] == "cancelled"
        assert done["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        assert done["output"][0]["status"] == "incomplete"
        id = done["output"][0]["id"]
        heard_ms = len(pcm([*begun, *rest])) * 1000 // 24000 // 2
        talk.send("conversation.item.truncate", item_id=id, content_index=0, audio_end_ms=heard_ms)
        (cut,) = messages([talk.receive()], "conversation.item.truncated")
        assert cut["audio_end_ms"] == heard_ms
        talk.send("conversation.item.retrieve", item_id=id)
        (left,) = messages([talk.receive()], "conversation.item.retrieved")
        transcript = left["item"]["content"][0]["transcript"]
        whole = f"You said: {LONG}"
        assert whole.startswith(transcript)
        assert len(transcript) < len(done["output"][0]["content"][0]["transcript"])
        error = refused(
            talk, "conversation.item.truncate", item_id=id, audio_end_ms=10**9, content_index=0
        )
        assert error["param"] == "audio_end_ms"
        say(talk, "Again.")
        assert text_of(answer(talk)) == "You said: Again."


def test_leaving_while_it_answers_frees_everything(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        say(talk, LONG)
        talk.send("response.create", response=GREEDY)
        talk.until("response.output_audio.delta")
    wait_until(lambda: server.num_open == 0)


def test_a_server_without_a_voice_answers_with_text() -> None:
    settings = Settings.model_validate(
        {"model": ModelSettings(source="toy"), "server": {"output_modalities": ("text",)}}
    )
    with (
        start_server(settings) as server,
        connected(server, "/v1/realtime?model=gpt-realtime") as talk,
    ):
        (created,) = messages([talk.receive()], "session.created")
        assert created["session"]["output_modalities"] == ["text"]
        say(talk, "Hello.")
        assert text_of(answer(talk)) == "You said: Hello."
        error = refused(talk, "session.update", session={"output_modalities": ["audio"]})
        assert error["code"] == "model_not_found"


def test_cancelling_without_a_name_means_the_conversations_answer(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        say(talk, LONG)
        talk.send("response.create", response={**GREEDY, "conversation": "none"})
        beside = messages(talk.until("response.output_audio.delta"))[0]["response"]["id"]
        talk.send("response.cancel")
        error = messages(talk.until("error"), "error")[0]["error"]
        assert error["code"] == "response_cancel_not_active"
        talk.send("response.create", response=GREEDY)
        created = messages(talk.until("response.created"))[-1]["response"]["id"]
        talk.send("response.cancel")
        talk.send("response.cancel", response_id=beside)
        done = [messages(talk.until("response.done"))[-1]["response"] for _ in range(2)]
        assert [(each["id"], each["status"]) for each in done] == [
            (created, "cancelled"),
            (beside, "cancelled"),
        ]


def test_what_is_said_while_an_answer_is_prepared_comes_after_it(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        asked = say(talk, "Hello.")["item"]["id"]
        talk.send("response.create", response=GREEDY)
        talk.send("conversation.item.create", item=message("And then?"))
        added = messages(talk.until("response.done"), "conversation.item.added")
        (reply,) = [each for each in added if each["item"]["role"] == "assistant"]
        assert reply["previous_item_id"] == asked
        assert text_of(answer(talk, output_modalities=["text"])) == "You said: And then?"


def test_a_limit_can_be_taken_back_and_instructions_are_read(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        for limit in (5, "inf"):
            talk.send("session.update", session={"max_output_tokens": limit})
            (updated,) = messages([talk.receive()], "session.updated")
            assert updated["session"]["max_output_tokens"] == limit
        say(talk, "Hello.")
        plain = answer(talk, output_modalities=["text"], conversation="none")
        told = answer(
            talk, output_modalities=["text"], conversation="none", instructions="Be kind."
        )
        assert text_of(plain) == text_of(told) == "You said: Hello."
        read = [each[-1]["response"]["usage"]["input_tokens"] for each in (plain, told)]
        assert read[1] == read[0] + len(tokens_of("system: Be kind.\n"))


def test_a_temperature_is_the_answers(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        say(talk, "word " * 60)
        more: dict[str, Any] = {"output_modalities": ["text"], "conversation": "none"}
        whole = text_of(answer(talk, **more))
        assert whole == f"You said: {'word ' * 60}"
        more["max_output_tokens"] = 200
        cold, hot = answer(talk, **more), answer(talk, **more, temperature=2.0)
        assert 100 < len(text_of(cold)) < len(whole)
        assert whole.startswith(text_of(cold))
        assert text_of(hot) != text_of(cold), "it may be empty: what is drawn first may end it"


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
