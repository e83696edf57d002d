"""POST /v1/chat/completions: answers of text, or of images, as the model can."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.bodies import JsonRoute
from antiphon.api.chat_audio import audio_response
from antiphon.api.chat_images import image_response
from antiphon.api.chat_text import text_response
from antiphon.api.delivery import EVENT_STREAM
from antiphon.api.schemas.chat import ChatBody
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.state import Asking, Server, ServerState, SpeechId
from antiphon.errors import UnknownModelError, UnservedTaskError

router = APIRouter(tags=["chat"], route_class=JsonRoute)

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or events that carry it.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            EVENT_STREAM: {"schema": {"type": "string"}},
        },
    },
    404: {"model": ErrorBody, "description": "There is no such model, or it does not chat."},
}


@router.post("/v1/chat/completions", response_class=Response, responses=_RESPONSES)
async def create_chat(
    body: ChatBody, request: Request, server: Server, caller: Asking, id: SpeechId
) -> Response:
    """Answer the last message.

    Models that chat answer with text; with ``audio`` among the ``modalities``, a model that speaks
    speaks it while it is written. Models that draw answer the user's last message with images,
    in which images of the message are edited; a model that does both draws if ``modalities`` has
    ``image``.
    """
    if _draws(body, server):
        return await image_response(body, request, server, caller, id)
    if (audio := body.spoken) is not None:
        return await audio_response(body, audio, server, id)
    return text_response(body, server, id)


def _draws(body: ChatBody, server: ServerState) -> bool:
    """Whether the answer is an image; raises UnservedTaskError or UnknownModelError."""
    if not (server.chats.models or server.images.models):
        raise UnservedTaskError("No served model chats.", server.models.does())
    if not server.images.models:
        return False
    if not server.chats.models or "image" in (body.modalities or ()):
        return True
    try:
        server.chats.model(body.model)
    except (UnknownModelError, UnservedTaskError):
        server.images.model(body.model)
        return True
    return False
