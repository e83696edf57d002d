"""What tests of images share: files, what an answer holds, the toy's own pixels."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import httpx
import numpy as np

from antiphon.media.image_codec import ImageFormat, Pixels, decode_image, encode_image

MAX_PIXELS = 4096 * 4096


def png(height: int = 64, width: int = 64, value: int = 0, channels: int = 3) -> bytes:
    return encode_image(np.full((height, width, channels), value, np.uint8), ImageFormat.PNG)


def data_uri(file: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(file).decode()}"


def pixels_of(image: Mapping[str, Any] | str) -> Pixels:
    encoded = image.rpartition(",")[2] if isinstance(image, str) else image["b64_json"]
    return decode_image(base64.b64decode(encoded, validate=True), max_pixels=MAX_PIXELS)


def image_events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in response.text.split("\n\n"):
        if not block or block.startswith(":"):
            continue
        name, _, data = block.partition("\n")
        event: dict[str, Any] = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found
