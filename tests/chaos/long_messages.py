"""What is said on each WebSocket, with a place for a long text."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Script: TypeAlias = Callable[[str], list[dict[str, Any]]]
"""Returns a conversation's messages, given a text."""


def _item(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    return {"type": "conversation.item.create", "item": item}


def _spoken(**config: Any) -> Script:
    def script(text: str) -> list[dict[str, Any]]:
        said = {"type": "input.text", "text": text}
        return [{"type": "session.config", **config}, said, {"type": "input.done"}]

    return script


def _configured(text: str) -> list[dict[str, Any]]:
    names = ("voice", "instructions", "language", "model")
    return [{"type": "session.config", name: text} for name in names]


def _instructed(text: str) -> list[dict[str, Any]]:
    session = {"type": "realtime", "instructions": text, "output_modalities": ["text"]}
    answer = {"type": "response.create"}
    return [{"type": "session.update", "session": session}, answer, _item(text), answer, answer]


def _many(text: str) -> list[dict[str, Any]]:
    session = {"type": "realtime", "output_modalities": ["text"]}
    answer = {"type": "response.create"}
    items = [_item(text[start : start + 1000]) for start in range(0, len(text), 1000)]
    return [{"type": "session.update", "session": session}, *items[:300], answer, answer]


def _answered(text: str) -> list[dict[str, Any]]:
    answer = {"type": "response.create"}
    instructed = {**answer, "response": {"instructions": text}}
    return [_item(text), answer, {"type": "response.cancel"}, instructed]


def _said(text: str) -> list[dict[str, Any]]:
    session = {"type": "realtime", "voice": text}
    update = {"type": "session.update", "session": session}
    return [update, _item(text), {"type": "response.create"}]


SCRIPTS: Mapping[str, Mapping[str, Script]] = {
    "/v1/audio/speech/stream": {
        "whole": _spoken(stream_audio=True),
        "sentences": _spoken(stream_audio=True, split_granularity="sentence"),
        "clauses": _spoken(stream_audio=True, split_granularity="clause", allow_voice_tags=True),
        "numbers": _spoken(model="hibari", stream_audio=True, normalize=True),
        "words": _spoken(model="hibari", stream_audio=True, pronunciations={"a": "b", "1": "2"}),
        "config": _configured,
    },
    "/v1/realtime?model=chat": {"text": _instructed, "items": _many, "spoken": _answered},
    "/v1/realtime": {"spoken": _said},
    "/v1/speak": {
        "spoken": lambda text: [{"type": "Speak", "text": text}, {"type": "Flush"}],
    },
    "/v1/text-to-speech/default/stream-input": {
        "spoken": lambda text: [{"text": text}, {"text": ""}],
    },
    "/v1/text-to-speech/default/multi-stream-input": {
        "contexts": lambda text: [
            {"text": text, "context_id": "a"},
            {"text": text, "context_id": "b", "flush": True},
        ],
    },
}
