"""POST /v1/chat/completions of models that draw: the answer is a message of images.

Images are parts of the content with data URIs, which is what clients of vLLM-Omni read from
``message.content`` and those of NVIDIA Dynamo from ``delta.content``.
"""

import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.delivery import EVENT_STREAM
from antiphon.api.deps import Asking, Server, SpeechId
from antiphon.api.errors import wire_error
from antiphon.api.image_answers import Drawing, ImageDelivery, comment, ended_well
from antiphon.api.images import image_requests, image_source, media_url, with_images
from antiphon.api.options import ignored_headers
from antiphon.api.schemas.chat import ChatBody
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.streaming import StreamedResponse, WholeResponse
from antiphon.errors import UnservedTaskError
from antiphon.telemetry.tracing import until_first
from antiphon.types import Ended, Image, Progress, Usage

router = APIRouter(tags=["images"])

_OF_CHATS = (
    *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "stop", "logprobs"),
    *("presence_penalty", "frequency_penalty", "metadata", "store", "service_tier"),
)
"""Members that say how text is written, which mean nothing to an image."""
_RESPONSES: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorBody, "description": "There is no such model, or it does not draw."},
}


@router.post("/v1/chat/completions", response_class=Response, responses=_RESPONSES)
async def create_chat(
    body: ChatBody, request: Request, server: Server, caller: Asking, id: SpeechId
) -> Response:
    """Draw what the user's last message says; images in it are edited, where the model can."""
    if not server.images.models:
        raise UnservedTaskError("No served model chats.", server.models.does())
    image_body = body.as_images()
    asked = body.asked
    sources = [image_source(each, "messages") for each in asked.images]
    requests, ignored = image_requests(
        image_body, server, id, num_images=len(sources), read=_OF_CHATS
    )
    requests = await with_images(requests, sources, [], server)
    delivery = ImageDelivery.of(image_body, requests, server, caller, media_url(request))
    model = server.images.model(body.model).name
    chat = _ChatAnswer(f"chatcmpl-{id.rpartition('/')[2]}", model, delivery)
    headers = {"Cache-Control": "no-cache", **ignored_headers(ignored, server.settings.speech)}
    drawing = server.images.several(requests)
    if body.stream:
        tells_usage = body.stream_options is not None and body.stream_options.include_usage
        pieces = until_first("first image", chat.chunks(drawing, tells_usage=tells_usage))
        headers["X-Accel-Buffering"] = "no"
        return StreamedResponse(pieces, headers, EVENT_STREAM, _error_event)

    async def collect() -> tuple[list[bytes], dict[str, str]]:
        return await chat.whole(drawing), {}

    return WholeResponse(collect, headers, "application/json")


class _ChatAnswer:
    """Writes the images of one chat."""

    def __init__(self, id: str, model: str, delivery: ImageDelivery) -> None:
        self._id = id
        self._model = model
        self._delivery = delivery
        self._created_s = int(time.time())

    async def whole(self, drawing: Drawing) -> list[bytes]:
        """Return the JSON of an answer, in pieces; closes ``drawing``."""
        parts: dict[int, bytes] = {}
        usage = Usage()
        async with aclosing(drawing):
            async for number, item in drawing:
                if isinstance(item, Image):
                    parts[number] = json.dumps(await self._part(number, item)).encode()
                elif isinstance(item, Ended):
                    usage += ended_well(item).usage
        message = {"role": "assistant", "content": []}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        members = self._members("chat.completion", [choice], usage)
        before, no_parts, after = json.dumps(members).partition('"content": []')
        assert no_parts
        pieces = [piece for number in sorted(parts) for piece in (b",", parts[number])]
        return [before.encode(), b'"content": [', *pieces[1:], b"]", after.encode()]

    async def chunks(self, drawing: Drawing, *, tells_usage: bool) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events: steps as comments, an event for each image, the end."""
        usage = Usage()
        is_first = True
        async with aclosing(drawing):
            async for number, item in drawing:
                match item:
                    case Progress(step=step, num_steps=num_steps):
                        yield comment(f"step {step}/{num_steps}")
                    case Image(preview_index=None):
                        role = {"role": "assistant"} if is_first else {}
                        is_first = False
                        delta = {**role, "content": [await self._part(number, item)]}
                        yield self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])
                    case Ended():
                        usage += ended_well(item).usage
        yield self._chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}])
        if tells_usage:
            yield self._chunk([], usage)
        yield b"data: [DONE]\n\n"

    async def _part(self, number: int, image: Image) -> Mapping[str, Any]:
        drawn = await self._delivery.image(number, image)
        url = drawn.url or f"data:{self._delivery.format.media_type};base64,{drawn.b64_json}"
        return {"type": "image_url", "image_url": {"url": url}}

    def _chunk(self, choices: list[Any], usage: Usage | None = None) -> bytes:
        members = self._members("chat.completion.chunk", choices, usage)
        return f"data: {json.dumps(members, separators=(',', ':'))}\n\n".encode()

    def _members(self, kind: str, choices: list[Any], usage: Usage | None) -> dict[str, Any]:
        members = {
            "id": self._id,
            "object": kind,
            "created": self._created_s,
            "model": self._model,
            "choices": choices,
        }
        if usage is not None:
            members["usage"] = {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
            }
        return members


def _error_event(error: Exception) -> bytes:
    return f"data: {json.dumps(wire_error(error).body())}\n\n".encode()
