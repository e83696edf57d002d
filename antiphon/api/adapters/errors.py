"""Errors in the shape of other vendors' clients, with the names of their fields.

OpenAI's ``error`` stays in the body, so that one reader can read all errors of this server.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.client import responses
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api.errors import WireError
from antiphon.telemetry import logs

Shape = Callable[[int, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Service:
    """The shape of a service's errors.

    Attributes:
        paths: Prefixes of the vendor's routes; without a final slash, whole segments.
        shape: makes the further members of a body, of the status and OpenAI's ``error``.
    """

    paths: tuple[str, ...]
    fields: Mapping[str, str]
    shape: Shape = field(default=lambda status, error: {})

    def renamed(self, error: WireError) -> WireError:
        """Return an error about the field that the client has sent."""
        message, param = self._renamed(error.message, error.param)
        return replace(error, message=message, param=param)

    def body(self, status: int, body: bytes) -> bytes:
        """Return the body of an answer with what the service's clients read."""
        answer = json.loads(body)
        if not isinstance(answer, dict) or not isinstance(error := answer.get("error"), dict):
            return body
        message, param = self._renamed(error["message"], error["param"])
        error |= {"message": message, "param": param}
        members = {**answer, **self.shape(status, error)}
        return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()

    def _renamed(self, message: str, param: str | None) -> tuple[str, str | None]:
        if param is None or param not in self.fields:
            return message, param
        named = self.fields[param]
        # What follows a colon is a value that the client has sent.
        return re.sub(rf"(?<!: )'{re.escape(param)}'", lambda _: f"'{named}'", message), named


def _as_deepgram(status: int, error: Mapping[str, Any]) -> Mapping[str, Any]:
    described = {
        "err_code": responses.get(status, "Client Closed Request"),
        "err_msg": error["message"],
    }
    return {**described, "request_id": logs.request_id.get()}


ELEVENLABS = Service(
    paths=(
        *("/v1/text-to-speech", "/v1/text-to-dialogue", "/v1/voices", "/v2/voices", "/v1/user"),
    ),
    fields={
        "input": "text",
        "voice": "voice_id",
        "model": "model_id",
        "language": "language_code",
        "sample_rate": "output_format",
        "audio_sample": "files",
        "speaker_description": "description",
    },
    shape=lambda _, error: {"detail": {"status": error["code"], "message": error["message"]}},
)
DEEPGRAM = Service(
    paths=("/v1/speak",), fields={"input": "text", "voice": "model"}, shape=_as_deepgram
)
VAPI = Service(
    paths=("/v1/vapi/speech",),
    fields={"input": "message.text", "sample_rate": "message.sampleRate"},
)
_SERVICES = (ELEVENLABS, DEEPGRAM, VAPI)
_SHARED_PATHS = ("/v1/models",)
"""ElevenLabs' clients are known by their key's header there."""
ELEVENLABS_KEY = "xi-api-key"


def service_of(scope: Scope) -> Service | None:
    """Return the service that a request speaks to, ``None`` for our own API."""
    path = scope["path"]
    if path in _SHARED_PATHS and ELEVENLABS_KEY in Headers(scope=scope):
        return ELEVENLABS
    for service in _SERVICES:
        if any(path == each or path.startswith(f"{each}/") for each in service.paths):
            return service
    return None


class ServiceErrorMiddleware:
    """Rewrites errors on their way to other vendors' clients, refused WebSockets among them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = service_of(scope)
        if service is None:
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        pieces: list[bytes] = []

        async def rewritten(message: Message) -> None:
            nonlocal start
            if message["type"].endswith("http.response.start") and _is_error(message):
                start = message
            elif start is not None and message["type"].endswith("http.response.body"):
                pieces.append(message.get("body", b""))
                if message.get("more_body"):
                    return
                body = service.body(start["status"], b"".join(pieces))
                MutableHeaders(scope=start)["Content-Length"] = str(len(body))
                await send(start)
                await send({**message, "body": body})
                start = None
            else:
                await send(message)

        await self._app(scope, receive, rewritten)


def _is_error(message: Message) -> bool:
    media_type = Headers(raw=message.get("headers", [])).get("content-type", "")
    return bool(message["status"] >= 400 and media_type.startswith("application/json"))
