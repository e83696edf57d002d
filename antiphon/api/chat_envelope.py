"""Envelope of every chat answer: id, model, creation time and usage."""

import json
import time
from typing import Any

from antiphon.contracts.types import Usage

STREAM_END = b"data: [DONE]\n\n"


class ChatEnvelope:
    """Writes the objects of one answer, whole or in chunks; ``created_s``: Unix time of it."""

    def __init__(self, id: str, model: str) -> None:
        """Begin one; ``id`` is the request's, and ``model`` the served model's name."""
        self._id = f"chatcmpl-{id.rpartition('/')[2]}"
        self._model = model
        self.created_s = int(time.time())

    def whole(self, choices: list[Any], usage: Usage) -> dict[str, Any]:
        return self._members("chat.completion", choices, {"usage": usage_members(usage)})

    def chunk(self, choices: list[Any], more: dict[str, Any] | None = None) -> bytes:
        """Return a server-sent event; ``more`` are further members of its object."""
        members = self._members("chat.completion.chunk", choices, more or {})
        return f"data: {json.dumps(members, separators=(',', ':'))}\n\n".encode()

    def _members(self, kind: str, choices: list[Any], more: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self.created_s,
            "model": self._model,
            "choices": choices,
            **more,
        }


def usage_members(usage: Usage) -> dict[str, int]:
    """Return in OpenAI's shape what was used."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
