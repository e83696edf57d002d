"""Mapping of requests of NVIDIA Dynamo's front end to calls of the API, and of answers to chunks.

Names and shapes are those of Dynamo 1.6.1 (``dynamo.common.protocols``).
"""

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from antiphon.errors import InvalidRequestError
from antiphon.media.image_codec import check_installed

Members: TypeAlias = dict[str, Any]

_TRUE = ("1", "on", "t", "true", "y", "yes")  # values that the API reads as true
_ENVELOPE = ("model", "extra_args", "nvext", "data_source")
"""Members for Dynamo, which has chosen the model; the rest is for the API."""
_UNDELIVERABLE = {"stream_format": "sse", "word_timestamps": True}
"""Speech options that the front end cannot deliver: events."""
_UNDELIVERABLE_PICTURES = {"stream": True, "async": True}
"""Image and video options that it cannot deliver: events, and jobs fetched later."""
_DATA_SOURCES = (None, "b64_json", "url")
_MESSAGES = "messages"
"""Member that only chats have."""
_GREY = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAAAAACPAi4CAAAAKUlEQVR42u3MQREAAAwCIKMb3R"
    "D77SAA6VEEAoFAIBAIBAKBQCAQfA8G320AeXC6efoAAAAASUVORK5CYII="
)
"""Image of 64 by 64 pixels, for models that require one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoRoute:
    """Task as served by Dynamo's front end.

    Attributes:
        endpoint_types: Dynamo's names of the kinds of endpoints, separated by commas.
        models: function that returns the server's models for the task, by name.
        path: function that returns the API route for a body.
        body: function that makes the body of the call from a request.
        chunk: function that makes Dynamo's chunk from a piece of the answer and the body.
        sample: function that makes a cheap request from the model's capabilities, for Dynamo's
            health checks.
        described: function that returns the members published to discovery.
        check: function that raises InvalidRequestError if a package is missing.
        wants_address: whether a request asks for the address of a file in the answer.
    """

    endpoint_types: str
    models: Callable[[Any], Mapping[str, Any]]
    path: Callable[[Members], str]
    body: Callable[[Mapping[str, Any]], Members]
    chunk: Callable[[bytes, Members], Members]
    sample: Callable[[Any], Members]
    described: Callable[[Any], Members] = lambda capabilities: {}
    check: Callable[[], None] = lambda: None
    wants_address: Callable[[Mapping[str, Any]], bool] = lambda request: False


def _members(request: Mapping[str, Any], undeliverable: Mapping[str, Any]) -> Members:
    """Return a request's members and, beside them, those that Dynamo does not know.

    Raises:
        InvalidRequestError: the request needs something that the front end cannot deliver.
    """
    further = (request.get("extra_args") or {}).get("media_passthrough") or {}
    own = {name: value for name, value in request.items() if value is not None}
    members = {**further, **own}
    for name, value in undeliverable.items():
        given = members.get(name)
        if given == value or (value is True and str(given).lower() in _TRUE):
            raise InvalidRequestError(
                f"Invalid '{name}': Dynamo's front end has no way to deliver it.", param=name
            )
    return {
        name: value
        for name, value in members.items()
        if name not in _ENVELOPE and not name.startswith("_")  # such as the mark of a health check
    }


def _wants_address(request: Mapping[str, Any]) -> bool:
    """Return whether a request for speech asks for the address of a file instead of bytes.

    Raises:
        InvalidRequestError: it asks for anything else.
    """
    source = request.get("data_source")
    if source not in _DATA_SOURCES:
        raise InvalidRequestError(
            f"Invalid 'data_source': {source!r}. Must be 'b64_json' or 'url'.", param="data_source"
        )
    return source == "url"


def _speech_body(request: Mapping[str, Any]) -> Members:
    """Request a stream if the front end streams the format (PCM, WAV), else a whole file."""
    further = {**(request.get("nvext") or {})}
    takes_pieces = further.pop("frontend_accepts_audio_chunks", None) or False
    further.pop("annotations", None)  # of server-sent events, which speech does not have
    body = {"response_format": "wav", **further, **_members(request, _UNDELIVERABLE)}
    body["stream"] = (
        not _wants_address(request) and takes_pieces and body.get("stream") is not False
    )
    body["stream_format"] = "audio" if body["stream"] else None
    return body


def _speech_chunk(piece: bytes, body: Members) -> Members:
    return _speech({"b64_json": base64.b64encode(piece).decode()}, body)


def speech_at(url: str, body: Members) -> Members:
    """Return the chunk for speech stored as a file."""
    return _speech({"url": url}, body)


def _speech(data: Members, body: Members) -> Members:
    audio = {"output_format": body["response_format"], **data}
    return {"object": "audio.speech", "created": int(time.time()), "data": [audio]}


def _speech_sample(capabilities: Any) -> Members:
    return {"input": capabilities.sample_request.input, "response_format": "pcm"}


def _described_voices(capabilities: Any) -> Members:
    return {"voices": [voice.id for voice in capabilities.voices]}


def _picture_body(request: Mapping[str, Any]) -> Members:
    """Request files in the answer, or their addresses; the API reads ``nvext`` of pictures."""
    members = _members(request, _UNDELIVERABLE_PICTURES)
    if (further := request.get("nvext")) is not None:
        members["nvext"] = further
    return {"response_format": "b64_json", **members}


def _image_body(request: Mapping[str, Any]) -> Members:
    """Edit the referenced image; a chat is answered whole, in one chunk."""
    if _MESSAGES in request:
        members = {"modalities": ["image"], **_members(request, {})}  # not text of the same model
        return {**members, "stream": False, "stream_options": None}
    body = _picture_body(request)
    if (reference := body.pop("input_reference", None)) is not None:
        body["image"] = reference
    return body


def _image_path(body: Members) -> str:
    if _MESSAGES in body:
        return "/v1/chat/completions"
    return "/v1/images/edits" if "image" in body else "/v1/images/generations"


def _picture_chunk(answer: bytes, body: Members) -> Members:
    """Return the API's answer, which has Dynamo's members and more."""
    members: Members = json.loads(answer)
    return members


def _image_chunk(answer: bytes, body: Members) -> Members:
    """Return images, or the message of a chat as the only delta of its stream."""
    members = _picture_chunk(answer, body)
    if _MESSAGES not in body:
        return members
    choices = [
        {name: choice[name] for name in ("index", "finish_reason")} | {"delta": choice["message"]}
        for choice in members["choices"]
    ]
    return {**members, "object": "chat.completion.chunk", "choices": choices}


def _picture_sample(capabilities: Any) -> Members:
    """Request a picture as small as the warm-up's: health checks have a few seconds."""
    sample = capabilities.sample_request
    asked: Members = {
        "prompt": sample.prompt,
        "nvext": {"num_inference_steps": capabilities.min_steps},
    }
    if sample.width is not None:
        asked["size"] = f"{sample.width}x{sample.height}"
    if capabilities.needs_image:
        asked["input_reference"] = _GREY
    return asked


def _video_sample(capabilities: Any) -> Members:
    asked = _picture_sample(capabilities)
    asked["nvext"]["num_frames"] = capabilities.sample_request.num_frames
    return asked


ROUTES = {
    "speech": DynamoRoute(
        endpoint_types="audios",
        models=lambda server: server.speech.models,
        path=lambda body: "/v1/audio/speech",
        body=_speech_body,
        chunk=_speech_chunk,
        sample=_speech_sample,
        described=_described_voices,
        wants_address=_wants_address,
    ),
    "image": DynamoRoute(
        endpoint_types="images,chat",
        models=lambda server: server.images.models,
        path=_image_path,
        body=_image_body,
        chunk=_image_chunk,
        sample=_picture_sample,
        check=check_installed,
    ),
    "video": DynamoRoute(
        endpoint_types="videos",
        models=lambda server: server.videos.models,
        path=lambda body: "/v1/videos",
        body=_picture_body,
        chunk=_picture_chunk,
        sample=_video_sample,
    ),
}
"""Routes by task."""
