"""Delivery of a request's audio: half of the field means bytes by ``"stream": true``.

vLLM-Omni sends server-sent events then, Kokoro-FastAPI and SGLang-Omni the file's bytes. The other
fields of a request show which server its client was written for.
"""

from collections.abc import Iterable
from enum import StrEnum, auto
from typing import Literal, TypeAlias

StreamMeaning: TypeAlias = Literal["sse", "audio"]
EVENT_STREAM = "text/event-stream"


class Delivery(StrEnum):
    """How the audio travels."""

    RAW = auto()  # the file's bytes as they are made
    EVENTS = auto()  # server-sent events, each with a piece of the file
    WHOLE = auto()  # one file of known length


def accepted_delivery(accept: str) -> Delivery | None:
    """Return what an ``Accept`` header asks for, ``None`` if it names neither audio nor events."""
    for media_type in _media_types(accept):
        if media_type == EVENT_STREAM:
            return Delivery.EVENTS
        if media_type.startswith("audio/"):
            return Delivery.RAW
    return None


def accepts_any_bytes(accept: str) -> bool:
    """Whether a client accepts plain bytes, as OpenAI's libraries do in every request."""
    return "application/octet-stream" in _media_types(accept)


def _media_types(accept: str) -> Iterable[str]:
    """Return the types of the header, the most wanted first."""
    wanted = []
    for part in accept.lower().split(","):
        media_type, *parameters = (each.strip() for each in part.split(";"))
        weights = [each.removeprefix("q=") for each in parameters if each.startswith("q=")]
        wanted.append((_weight(weights[0]) if weights else 1.0, media_type))
    wanted.sort(key=lambda each: -each[0])
    return [media_type for weight, media_type in wanted if weight > 0]


def _weight(text: str) -> float:
    """Read a weight; one that cannot be read counts nothing."""
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
