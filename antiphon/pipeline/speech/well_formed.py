"""Refuses what JSON can hold but nothing can write: half a surrogate pair, very deep nests."""

from collections.abc import Mapping
from typing import Any

from antiphon.errors import InvalidRequestError, shortened
from antiphon.types import SpeechRequest

MAX_DEPTH = 32


def check_unicode(request: SpeechRequest) -> None:
    """Refuse a request of whose texts one is not valid Unicode.

    Raises:
        InvalidRequestError: names the field.
    """
    texts = {"input": request.input, "voice": request.voice, "model": request.model}
    texts |= {"language": request.language, "instructions": request.instructions}
    check_members({**texts, **request.options, "pronunciations": request.pronunciations})


def check_members(members: Mapping[str, Any]) -> None:
    """Refuse members that could not be written down again: in a log, an answer, a database.

    Raises:
        InvalidRequestError: one holds half a surrogate pair anywhere, or is nested too deeply.
    """
    for name, value in members.items():
        param = shortened(name)
        if not (is_encodable(name) and _all_encodable(value, param)):
            raise InvalidRequestError(
                f"Invalid '{param}'. It must be a string of valid Unicode.", param=param
            )


def is_encodable(text: str) -> bool:
    """Whether a text has an encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _all_encodable(value: Any, param: str) -> bool:
    """Look at all strings inside, level by level."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for each in level:
            match each:
                case str() as text:
                    if not is_encodable(text):
                        return False
                case Mapping() as members:
                    inner.extend(members)
                    inner.extend(members.values())
                case list() | tuple() as items:
                    inner.extend(items)
        if not inner:
            return True
        level = inner
    raise InvalidRequestError(
        f"Invalid '{param}': it is nested too deeply; at most {MAX_DEPTH} levels are allowed.",
        param=param,
    )
