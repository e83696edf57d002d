"""Requests from a task's arguments, each of which is one for all texts or a list."""

from collections.abc import Mapping
from typing import Any

from antiphon.contracts.sampling import NEW_TOKENS, Sampling, max_frames_of, names_of
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import InvalidRequestError

_REQUEST_FIELDS = ("voice", "language", "instructions", "seed", "speed", "sample_rate_hz")
_SAMPLING_FIELDS = ("do_sample", "ignore_eos", *names_of(Sampling))


def requests_of(
    text: str | list[str], each: Mapping[str, Any], more: Mapping[str, Any]
) -> list[SpeechRequest]:
    """Return one request per text.

    Args:
        text: text or list of texts.
        each: fields and options by name; a list has one entry per text. ``None`` is left out.
        more: fields shared by all texts, except ``seed`` and ``language``, which may be lists.

    Raises:
        InvalidRequestError: the lengths of a list and the texts differ.
    """
    texts = text if isinstance(text, list) else [text]
    each = {"language": more.get("language"), "seed": more.get("seed"), **each}
    for name, value in each.items():
        if not isinstance(value, list):
            continue
        if not isinstance(text, list) or len(value) != len(texts):
            raise InvalidRequestError(
                f"Invalid '{name}': a list of {len(value)} for"
                f" {len(texts) if isinstance(text, list) else 'one'} text(s).",
                param=name,
            )
    return [
        _request(one, {**more, **{name: _at(value, n) for name, value in each.items()}})
        for n, one in enumerate(texts)
    ]


def _at(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list) else value


def _request(text: str, values: Mapping[str, Any]) -> SpeechRequest:
    """Sort values into the parts of a request; unknown names are options."""
    given = {name: value for name, value in values.items() if value is not None}
    fields = {name: given.pop(name) for name in _REQUEST_FIELDS if name in given}
    sampling = {name: given.pop(name) for name in _SAMPLING_FIELDS if name in given}
    max_new_tokens = given.pop("max_new_tokens", None)
    if max_new_tokens is not None:
        NEW_TOKENS.check("max_new_tokens", max_new_tokens)
    sampling["max_frames"] = max_frames_of(max_new_tokens)
    sampling["min_frames"] = given.pop("min_tokens", None)
    return SpeechRequest(text, sampling=Sampling(**sampling), options=given, **fields)
