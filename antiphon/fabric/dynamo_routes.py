"""How requests of NVIDIA Dynamo's front end become calls of the API, and answers its chunks: data.

Names and shapes are those of Dynamo 1.6.1 (``dynamo.common.protocols``).
"""

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from antiphon.errors import InvalidRequestError

Members: TypeAlias = dict[str, Any]

_ENVELOPE = ("model", "extra_args", "nvext", "data_source")
"""What a request says to Dynamo, which has chosen the model; the rest is for the API."""
_UNDELIVERABLE = {"stream_format": "sse", "word_timestamps": True, "data_source": "url"}
"""What the front end has no way to deliver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoRoute:
    """A task, as Dynamo's front end serves it.

    Attributes:
        endpoint_type: Dynamo's name of the kind of endpoint.
        path: of the route of the API that answers.
        body: makes the body of the call from a request.
        chunk: makes what is yielded to Dynamo of a piece of the answer, given the body.
        sample: makes a request from a short text, for Dynamo's health checks.
    """

    endpoint_type: str
    path: str
    body: Callable[[Mapping[str, Any]], Members]
    chunk: Callable[[bytes, Members], Members]
    sample: Callable[[str], Members]


def _members(request: Mapping[str, Any]) -> Members:
    """Return a request's members and, beside them, those that Dynamo does not know.

    Raises:
        InvalidRequestError: it asks for what the front end cannot deliver.
    """
    further = (request.get("extra_args") or {}).get("media_passthrough") or {}
    own = {name: value for name, value in request.items() if value is not None}
    members = {**further, **own}
    for name, value in _UNDELIVERABLE.items():
        if members.get(name) == value:
            raise InvalidRequestError(
                f"Invalid '{name}': Dynamo's front end has no way to deliver it.", param=name
            )
    return {
        name: value
        for name, value in members.items()
        if name not in _ENVELOPE and not name.startswith("_")  # as the mark of a health check
    }


def _speech_body(request: Mapping[str, Any]) -> Members:
    """Ask for pieces where the front end streams them (PCM, WAV), else for a whole file."""
    body = {"response_format": "wav", **_members(request)}
    takes_pieces = (request.get("nvext") or {}).get("frontend_accepts_audio_chunks", False)
    body["stream"] = takes_pieces and body.get("stream") is not False
    body["stream_format"] = "audio" if body["stream"] else None
    return body


def _speech_chunk(piece: bytes, body: Members) -> Members:
    audio = {"output_format": body["response_format"], "b64_json": base64.b64encode(piece).decode()}
    return {"object": "audio.speech", "created": int(time.time()), "data": [audio]}


def _speech_sample(text: str) -> Members:
    return {"input": text, "response_format": "pcm"}


ROUTES = {
    "speech": DynamoRoute(
        endpoint_type="audios",
        path="/v1/audio/speech",
        body=_speech_body,
        chunk=_speech_chunk,
        sample=_speech_sample,
    ),
}
"""By the names of tasks."""
