"""Answers of images in chats, by models that draw.

Images are parts of the content with data URIs, which is what clients of vLLM-Omni read from
``message.content`` and those of NVIDIA Dynamo from ``delta.content``.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.chat_envelope import STREAM_END, ChatEnvelope, usage_members
from antiphon.api.chat_text import error_event
from antiphon.api.errors import validated
from antiphon.api.image_answers import Drawing, ImageDelivery, comment, ended_well
from antiphon.api.images import image_requests, image_source, media_url, with_images
from antiphon.api.json_or_events import events_or_json
from antiphon.api.options import ignored_headers
from antiphon.api.schemas.chat import ChatBody
from antiphon.api.schemas.chat_images import ImageChatBody
from antiphon.api.state import ServerState
from antiphon.contracts.picture_types import Image, Progress
from antiphon.contracts.types import Caller, Ended, Usage


async def image_response(
    body: ChatBody, request: Request, server: ServerState, caller: Caller, id: str
) -> Response:
    """Draw the user's last message, or edit its images; raises InvalidRequestError."""
    drawn = validated(ImageChatBody, body.members)
    image_body = drawn.as_images()
    asked = drawn.asked
    sources = [image_source(each, "messages") for each in asked.images]
    requests, ignored = image_requests(
        image_body, server, id, num_images=len(sources), read=ChatBody.model_fields
    )
    requests = await with_images(requests, sources, [], server)
    delivery = ImageDelivery(image_body, requests, server, caller, media_url(request))
    chat = _DrawnAnswer(ChatEnvelope(id, server.images.model(body.model).name), delivery)
    headers = ignored_headers(ignored, server.settings.speech)
    drawing = server.images.several(requests)
    events = chat.chunks(drawing, tells_usage=body.tells_usage) if body.stream else None
    whole = partial(chat.whole, drawing)
    return events_or_json(events, whole, headers, first="first image", on_close=error_event)


class _DrawnAnswer:
    def __init__(self, envelope: ChatEnvelope, delivery: ImageDelivery) -> None:
        self._envelope = envelope
        self._delivery = delivery

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
        members = self._envelope.whole([choice], usage)
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
                        choice = {"index": 0, "delta": delta, "finish_reason": None}
                        yield self._envelope.chunk([choice])
                    case Ended():
                        usage += ended_well(item).usage
        yield self._envelope.chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}])
        if tells_usage:
            yield self._envelope.chunk([], {"usage": usage_members(usage)})
        yield STREAM_END

    async def _part(self, number: int, image: Image) -> Mapping[str, Any]:
        drawn = await self._delivery.image(number, image)
        url = (
            drawn.url
            or f"data:{self._delivery.body.output_format.media_type};base64,{drawn.b64_json}"
        )
        return {"type": "image_url", "image_url": {"url": url}}
