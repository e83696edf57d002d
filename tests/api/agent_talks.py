"""Conversations with a realtime agent: what is said to it, and what it answers."""

from typing import Any

from tests.sockets import Client, messages

PATH = "/v1/realtime?model=toy"
GREEDY = {"temperature": 0}
LONG = "This is a sentence of which there are many. " * 40
SPOKEN = [
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
"""The events of an answer that is spoken."""


def message(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **more}


def say(talk: Client, text: str, **more: Any) -> dict[str, Any]:
    talk.send("conversation.item.create", item=message(text, **more))
    return messages(talk.until("conversation.item.done"))[-1]


def answer(talk: Client, **response: Any) -> list[dict[str, Any]]:
    talk.send("response.create", response={**GREEDY, **response})
    return messages(talk.until("response.done"))


def refused(talk: Client, type: str, **members: Any) -> dict[str, Any]:
    talk.send(type, event_id="mine", **members)
    (found,) = messages(talk.until("error"))
    assert found["error"]["event_id"] == "mine"
    error = found["error"]
    assert isinstance(error, dict)
    return error


def text_of(found: list[dict[str, Any]]) -> str:
    (content,) = found[-1]["response"]["output"][0]["content"]
    return str(content.get("transcript", content.get("text")))
