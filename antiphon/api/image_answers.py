"""Images as clients get them: files in JSON, or addresses of files; whole, or as events."""

import base64
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from antiphon.api.json_or_events import event
from antiphon.api.middleware import memory_budget
from antiphon.api.schemas.images import DrawnImage, ImageBody, ImagesAnswer, ImageUsage
from antiphon.api.state import ServerState
from antiphon.contracts.picture_types import Image, ImageRequest, Progress
from antiphon.contracts.types import Caller, Ended, Usage
from antiphon.errors import UnavailableError
from antiphon.media.image_codec import Pixels, check_installed, encode_image
from antiphon.pipeline.pictures.images import ImageItem

Drawing: TypeAlias = AsyncGenerator[tuple[int, ImageItem], None]
"""Items of several images, each with its image's number; see `Images.several`."""


@dataclass(frozen=True, slots=True)
class ImageDelivery:
    """Delivers the images of a request in the form that its body asks for.

    Attributes:
        caller: Caller of the request, who owns files that are kept.
        media_url: address of the route of media, as the client knows the server.
    """

    body: ImageBody
    requests: tuple[ImageRequest, ...]
    server: ServerState
    caller: Caller
    media_url: str

    def __post_init__(self) -> None:
        check_installed()

    async def file(self, pixels: Pixels) -> bytes:
        """Return a file of an image; what it takes counts for the request meanwhile."""
        with memory_budget.reservation() as reserve:
            reserve(2 * pixels.nbytes)
            return await self.server.encoders.run(self._encoded, pixels)

    async def image(self, number: int, image: Image) -> DrawnImage:
        """Return an image for an answer, or keep it and return its address."""
        file = await self.file(image.pixels)
        seed = self.requests[number].seed
        assert seed is not None, "the request is complete"
        if self.body.response_format == "url" and image.preview_index is None:
            media = self.server.media
            return DrawnImage(
                url=await media.keep(
                    file, str(self.body.output_format), self.caller, self.media_url
                ),
                seed=seed,
            )
        memory_budget.reserve(4 * -(-len(file) // 3))
        encoded = await self.server.encoders.run(base64.b64encode, file)
        return DrawnImage(b64_json=encoded.decode(), seed=seed)

    def _encoded(self, pixels: Pixels) -> bytes:
        body = self.body
        is_opaque = body.background == "opaque"
        return encode_image(
            pixels, body.output_format, body.output_compression, is_opaque=is_opaque
        )

    def about(self, pixels: Pixels) -> dict[str, Any]:
        """Return the members that accompany an image."""
        body = self.body
        height, width, channels = pixels.shape
        is_clear = channels == 4 and body.output_format.has_alpha and body.background != "opaque"
        background: Literal["opaque", "transparent"] = "transparent" if is_clear else "opaque"
        return {
            "background": background,
            "output_format": body.output_format,
            "quality": body.quality,
            "size": f"{width}x{height}",
        }


async def answered(delivery: ImageDelivery, drawing: Drawing) -> list[bytes]:
    """Return the JSON of a whole answer, in pieces; closes ``drawing``.

    Raises:
        UnavailableError: the server stopped it.
        RequestTooLargeError, MemoryShareError, MemoryFullError: there is no memory for it.
        StorageError: an image could not be kept.
    """
    images: dict[int, bytes] = {}
    usage, about = Usage(), {}
    async with aclosing(drawing):
        async for number, item in drawing:
            if isinstance(item, Image):
                drawn = await delivery.image(number, item)
                images[number] = drawn.model_dump_json(exclude_none=True).encode()
                about = delivery.about(item.pixels)
            elif isinstance(item, Ended):
                usage += ended_well(item).usage
    answer = ImagesAnswer(
        created=int(time.time()), data=[], usage=ImageUsage.of(usage), **about
    ).model_dump_json()
    before, no_images, after = answer.partition('"data":[]')
    assert no_images
    pieces = [piece for number in sorted(images) for piece in (b",", images[number])]
    return [before.encode(), b'"data":[', *pieces[1:], b"]", after.encode()]


async def image_events(
    delivery: ImageDelivery, drawing: Drawing, kind: str
) -> AsyncGenerator[bytes, None]:
    """Yield server-sent events: steps as comments, previews, and final images with their usage.

    Of several images, events name theirs in ``index``.

    Args:
        drawing: closed with the events.
        kind: the first part of the events' names, as "image_generation".

    Raises:
        UnavailableError: the server stopped it.
        RequestTooLargeError, MemoryShareError, MemoryFullError: there is no memory for it.
        StorageError: an image could not be kept.
    """
    final: dict[int, tuple[DrawnImage, dict[str, Any]]] = {}
    is_one = len(delivery.requests) == 1
    async with aclosing(drawing):
        async for number, item in drawing:
            which = {} if is_one else {"index": number}
            match item:
                case Progress(step=step, num_steps=num_steps):
                    yield comment(f"step {step}/{num_steps}" + ("" if is_one else f" of {number}"))
                case Image(preview_index=None):
                    final[number] = await delivery.image(number, item), delivery.about(item.pixels)
                case Image(preview_index=index):
                    drawn = await delivery.image(number, item)
                    members = {**_members(drawn), **delivery.about(item.pixels), **which}
                    yield event(f"{kind}.partial_image", {**members, "partial_image_index": index})
                    memory_budget.release(len(drawn.b64_json or ""))
                case Ended():
                    ended_well(item)
                    drawn, about = final.pop(number)
                    usage = ImageUsage.of(item.usage).model_dump()
                    members = {**_members(drawn), **about, **which, "usage": usage}
                    yield event(f"{kind}.completed", members)
                    memory_budget.release(len(drawn.b64_json or ""))


def _members(drawn: DrawnImage) -> dict[str, Any]:
    return {**drawn.model_dump(exclude_none=True), "created_at": int(time.time())}


def ended_well(ended: Ended) -> Ended:
    """Return how an image ended; raises UnavailableError if the server stopped it."""
    if ended.reason == "abort":
        raise UnavailableError("The server is stopping: the image was not finished.")
    return ended


def comment(text: str) -> bytes:
    """Return a comment of an event stream, which clients skip."""
    return f": {text}\n\n".encode()
