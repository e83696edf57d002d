"""/v1/images: generations and edits, in OpenAI's contract."""

import math
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.bodies import Fields, JsonRoute, Upload
from antiphon.api.delivery import EVENT_STREAM
from antiphon.api.errors import validated
from antiphon.api.image_answers import ImageDelivery, answered, image_events
from antiphon.api.json_or_events import error_event, events_or_json
from antiphon.api.middleware.memory_budget import reserve
from antiphon.api.options import ignored_headers
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.field_rules import check_known
from antiphon.api.schemas.images import ImageBody, ImagesAnswer
from antiphon.api.state import Asking, Server, ServerState, SpeechId
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.errors import InvalidRequestError, invalid, missing
from antiphon.media.image_codec import Pixels
from antiphon.pipeline.pictures.service import ImageModel

router = APIRouter(tags=["images"], route_class=JsonRoute)

_IMAGES = ("image", "image[]", "images", "url", "url[]", "reference_image")
_MASKS = ("mask", "mask_image")
_ADDRESS_MEMBERS = ("url", "detail")
_IMAGE_MEMBERS = ("type", "image_url", "file_id", *_ADDRESS_MEMBERS)
_FILE = {"type": "string", "format": "binary"}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ImagesAnswer,
        "description": "The images, or events that carry them.",
        "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
    },
    404: {"model": ErrorBody, "description": "There is no such model, or it does not draw."},
    507: {"model": ErrorBody, "description": "There is no room to keep the images."},
}
_EDIT_FORM = {
    "type": "object",
    "description": "The fields of a generation, and images.",
    "required": ["image", "prompt"],
    "properties": {
        "image": {"type": "array", "items": _FILE, "description": "Or image[]; PNG, JPEG, WebP."},
        "mask": {**_FILE, "description": "Transparent where the first image may change."},
        "url": {"type": "string", "description": "An address of an image instead of a file."},
        "prompt": {"type": "string"},
    },
}
_EDIT_BODY = {"requestBody": {"content": {"multipart/form-data": {"schema": _EDIT_FORM}}}}


@router.post("/v1/images/generations", response_class=Response, responses=_RESPONSES)
async def create_images(
    body: ImageBody, request: Request, server: Server, caller: Asking, id: SpeechId
) -> Response:
    """Draw images. Members that only the model's family knows go to the model.

    ``stream: true`` gives server-sent events: ``image_generation.partial_image`` as often as
    ``partial_images`` asks for, then ``image_generation.completed``; comments between them give the
    steps. A failure midway breaks the connection after an ``error`` event.
    """
    requests, ignored = image_requests(body, server, id)
    delivery = ImageDelivery(body, requests, server, caller, media_url(request))
    return _response(delivery, "image_generation", ignored, is_stream=body.stream)


@router.post(
    "/v1/images/edits",
    response_class=Response,
    responses=_RESPONSES,
    openapi_extra=_EDIT_BODY,
)
async def edit_images(request: Request, server: Server, caller: Asking, id: SpeechId) -> Response:
    """Draw images after others: a form with files, or JSON with their addresses in ``images``."""
    fields = await Fields.of(request)
    others = {
        name: value for name, value in fields.values.items() if name not in (*_IMAGES, *_MASKS)
    }
    body = validated(ImageBody, others)
    sources, masks = _sources(fields, _IMAGES), _sources(fields, _MASKS)
    if not sources:
        raise missing("image")
    if len(masks) > 1:
        raise invalid("mask", "there can be only one")
    requests, ignored = image_requests(body, server, id, num_images=len(sources))
    edited = await with_images(requests, sources, masks, server)
    delivery = ImageDelivery(body, edited, server, caller, media_url(request))
    return _response(delivery, "image_edit", ignored, is_stream=body.stream)


@router.post("/v1/images/variations", responses={400: {"model": ErrorBody}})
async def vary_images(server: Server) -> Response:
    """Refuse: no model makes variations without a prompt."""
    server.images.model(None)
    raise InvalidRequestError(
        "Variations are not served: no model draws an image after another one without a prompt."
        " Send the image with a prompt to /v1/images/edits, where a model can edit."
    )


def media_url(request: Request) -> str:
    """Return the address of the route of media, as a request's client knows the server."""
    return f"{request.base_url}v1/media/"


def _response(
    delivery: ImageDelivery, kind: str, ignored: tuple[str, ...], *, is_stream: bool
) -> Response:
    server = delivery.server
    headers = ignored_headers(ignored, server.settings.speech)
    drawing = server.images.several(delivery.requests)
    events = image_events(delivery, drawing, kind) if is_stream else None
    whole = partial(answered, delivery, drawing)
    return events_or_json(events, whole, headers, first="first image", on_close=error_event)


def image_requests(
    body: ImageBody,
    server: ServerState,
    id: str,
    *,
    num_images: int = 0,
    read: Collection[str] = (),
) -> tuple[tuple[ImageRequest, ...], tuple[str, ...]]:
    """Return requests of all images, and names of unknown members; raises InvalidRequestError.

    Args:
        num_images: Number of images to edit that are still to be loaded.
        read: names of members of the body that mean nothing to an image.
    """
    model = server.images.model(body.model)
    options, ignored = body.family_options(model.task, read)
    if body.background == "transparent" and not model.capabilities.alpha:
        raise invalid("background", f"the images of '{model.name}' are opaque")
    requests = tuple(
        replace(each, options=options, parameters=_of_quality(body, model))
        for each in body.to_domain(id, server.settings.images.max_images)
    )
    if num_images:
        server.images.check_num_images(num_images, model)
        return requests, ignored
    return tuple(server.images.completed(each) for each in requests), ignored


def _of_quality(body: ImageBody, model: ImageModel) -> DiffusionParameters:
    """Return the body's parameters; low quality takes half of the model's steps."""
    parameters = body.parameters()
    num_steps = model.capabilities.parameters.num_inference_steps
    if body.quality == "low" and num_steps and parameters.num_inference_steps is None:
        return replace(parameters, num_inference_steps=math.ceil(num_steps / 2))
    return parameters


def _sources(fields: Fields, names: tuple[str, ...]) -> list[str | bytes]:
    """Return files and addresses of images, in order; each is one of a form, or of JSON."""
    found: list[str | bytes] = []
    for name in names:
        values = fields.every.get(name)
        if values is None:
            given = fields.values.get(name, [])
            values = tuple(given) if isinstance(given, list) else (given,)
        found += [image_source(value, name) for value in values if value not in (None, "")]
    return found


def image_source(value: Any, name: str) -> str | bytes:
    """Return a file, or the address of one, as forms, JSON and messages of chats have it.

    Raises:
        InvalidRequestError: it is neither; ``name`` is the field.
    """
    if isinstance(value, Upload):
        return value.content
    if isinstance(value, dict):
        check_known(value, _IMAGE_MEMBERS, name)
        value = value.get("image_url", value.get("url"))
        if isinstance(value, dict):  # as parts of chats have it
            check_known(value, _ADDRESS_MEMBERS, f"{name}.image_url")
            value = value.get("url")
    if not isinstance(value, str):
        raise InvalidRequestError(
            f"Invalid '{name}'. It must be a file of a form, the address of one, or an object with"
            " an 'image_url'; this server keeps no files that have a 'file_id'.",
            param=name,
        )
    return value


async def with_images(
    requests: tuple[ImageRequest, ...],
    sources: list[str | bytes],
    masks: list[str | bytes],
    server: ServerState,
) -> tuple[ImageRequest, ...]:
    """Load the images of an edit, and complete its requests."""
    images = tuple([await load_image(each, "image", server) for each in sources])
    mask = None
    if masks:
        mask = _mask_of(await load_image(masks[0], "mask", server, keeps_alpha=True))
    edited = [replace(each, images=images, mask=mask) for each in requests]
    return tuple(server.images.completed(each) for each in edited)


async def load_image(
    source: str | bytes, param: str, server: ServerState, *, keeps_alpha: bool = False
) -> Pixels:
    """Return an image of a client, which counts for its request."""
    limits = server.settings.images
    pixels = await server.image_files.load(
        source,
        param,
        max_bytes=limits.max_input_bytes,
        max_pixels=limits.max_input_pixels,
        keeps_alpha=keeps_alpha,
    )
    reserve(pixels.nbytes)
    return pixels


def _mask_of(pixels: Pixels) -> Pixels:
    """Return where an image may change: where a mask is transparent, or white if nowhere is."""
    if pixels.shape[2] == 4:
        return np.where(pixels[..., 3] < 128, 255, 0).astype(np.uint8)
    return np.where(pixels.mean(axis=2) >= 128, 255, 0).astype(np.uint8)
