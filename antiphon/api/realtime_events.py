"""The events that a realtime client is sent, one function each for those that have a shape."""

import base64
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from antiphon.api.errors import WireError
from antiphon.api.schemas.realtime import Output, OutputFormat
from antiphon.api.sockets import Socket
from antiphon.api.state import ServerState
from antiphon.api.wire_format import WireFormat
from antiphon.contracts.types import Ended, Usage, random_hex
from antiphon.contracts.well_formed import is_encodable
from antiphon.errors import UnknownModelError, UnservedTaskError, invalid, shortened

_OBJECTS_OF_JSON = 20
"""Memory of small objects, by the length of their JSON."""


def new_id(prefix: str) -> str:
    """Return a fresh id, as ``resp_1f0c...``."""
    return f"{prefix}_{random_hex(24)}"


def event(type: str, **members: Any) -> dict[str, Any]:
    return {"type": type, "event_id": new_id("event"), **members}


def client_event_id(message: Mapping[str, Any]) -> str | None:
    """Return a message's id, if it is one that an answer can repeat."""
    id = message.get("event_id")
    return id if isinstance(id, str) and is_encodable(id) else None


def check_session_model(name: str, own: str, server: ServerState) -> None:
    """Refuse a model that is not the connection's; raises InvalidRequestError."""
    for find in (server.speech.model, server.chats.model):
        with suppress(UnknownModelError, UnservedTaskError):
            if find(name).name == own:
                return
    raise invalid(
        "session.model",
        f"'{shortened(name)}'. Must be '{own}', the model of this connection; connect with"
        " '?model=' for another one",
    )


def session_object(id: str, model: str, output: Output, **more: Any) -> dict[str, Any]:
    """Describe a session; ``more`` replaces what is so of models that only speak."""
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": id,
        "model": model,
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "none",
        "audio": {
            "input": {"turn_detection": None, "transcription": None},
            "output": output_object(output),
        },
        **more,
    }


def output_object(output: Output) -> dict[str, Any]:
    """Describe how is spoken."""
    format = output.format or OutputFormat()
    return {
        "voice": output.voice,
        "speed": output.speed or 1.0,
        "format": {"type": format.type, "rate": format.as_wire().sample_rate_hz},
    }


def usage_object(text: Usage, audio: Usage) -> dict[str, Any]:
    """Describe what was used: to write a text, whose input counts, and to speak it."""
    num_tokens = text.output_tokens + audio.output_tokens
    return {
        "total_tokens": text.input_tokens + num_tokens,
        "input_tokens": text.input_tokens,
        "output_tokens": num_tokens,
        "input_token_details": {"text_tokens": text.input_tokens, "audio_tokens": 0},
        "output_token_details": {
            "text_tokens": text.output_tokens,
            "audio_tokens": audio.output_tokens,
        },
    }


def error_event(error: WireError, client_event_id: str | None) -> dict[str, Any]:
    """Return the event for a message that was refused."""
    return event("error", error={**error.body()["error"], "event_id": client_event_id})


class SpokenResponse:
    """Sends the events of one response; a `Listener`."""

    def __init__(
        self, socket: Socket, text: str, format: WireFormat, metadata: Mapping[str, Any] | None
    ) -> None:
        self._socket = socket
        self.text = text
        self._num_sent: int | None = None  # characters of the transcript; None: not begun
        self._format = format
        self._metadata = metadata
        self.id = new_id("resp")
        self._item_id = new_id("item")
        self.is_over = False
        self._num_metadata_bytes = _OBJECTS_OF_JSON * len(json.dumps(metadata)) if metadata else 0

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return sys.getsizeof(self.text) + self._num_metadata_bytes

    async def create(self) -> None:
        """Send that the response was created."""
        await self._send("response.created", response=self._response("in_progress", []))

    async def begin(self) -> None:
        item = self._item("in_progress", [])
        await self._send_placed("response.output_item.added", item=item)
        await self._send("conversation.item.added", previous_item_id=None, item=item)
        part = {"type": "audio", "transcript": ""}
        await self._send_placed("response.content_part.added", part=part, content_index=0)
        self._num_sent = 0
        await self._send_transcript()

    async def add(self, text: str) -> None:
        self.text += text
        if self._num_sent is not None:
            await self._send_transcript()

    async def _send_transcript(self) -> None:
        delta, self._num_sent = self.text[self._num_sent :], len(self.text)
        await self._send_content("response.output_audio_transcript.delta", delta=delta)

    async def on_audio(self, piece: bytes) -> None:
        delta = base64.b64encode(self._format.finished(piece)).decode()
        await self._send_content("response.output_audio.delta", delta=delta)

    async def end(self, ended: Ended) -> None:
        part = {"type": "audio", "transcript": self.text}
        item = self._item("completed", [{"type": "output_audio", "transcript": self.text}])
        await self._send_content("response.output_audio.done")
        transcript = self.text
        await self._send_content("response.output_audio_transcript.done", transcript=transcript)
        await self._send_content("response.content_part.done", part=part)
        await self._send_placed("response.output_item.done", item=item)
        await self._send("conversation.item.done", previous_item_id=None, item=item)
        await self._over(self._response("completed", [item], ended.usage))

    async def fail(self, error: WireError) -> None:
        details = {"type": "failed", "error": error.body()["error"]}
        await self._over({**self._response("failed", []), "status_details": details})

    async def cancel(self) -> None:
        """Send that the client cancelled the response."""
        if not self.is_over:
            details = {"type": "cancelled", "reason": "client_cancelled"}
            await self._over({**self._response("cancelled", []), "status_details": details})

    async def _over(self, response: Mapping[str, Any]) -> None:
        self.is_over = True
        await self._send("response.done", response=response)

    def _response(
        self, status: str, output: list[dict[str, Any]], usage: Usage | None = None
    ) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": status,
            "status_details": None,
            "output": output,
            "output_modalities": ["audio"],
            "metadata": self._metadata,
            "usage": None if usage is None else usage_object(Usage(usage.input_tokens), usage),
        }

    def _item(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        kind = {"type": "message", "role": "assistant", "object": "realtime.item"}
        return {"id": self._item_id, **kind, "status": status, "content": content}

    async def _send(self, type: str, **members: Any) -> None:
        await self._socket.send(event(type, **members))

    async def _send_placed(self, type: str, **members: Any) -> None:
        await self._send(
            type, response_id=self.id, item_id=self._item_id, output_index=0, **members
        )

    async def _send_content(self, type: str, **members: Any) -> None:
        await self._send_placed(type, content_index=0, **members)
