"""Pydantic's validation errors in plain words: the field and the allowed values."""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from antiphon.errors import InvalidRequestError, shortened

M = TypeVar("M", bound=BaseModel)

NOT_AN_OBJECT = (
    "The request body must be a JSON object, sent with 'Content-Type: application/json'."
)
MAX_SHOWN_CHARACTERS = 60
MAX_EXPLAINED = 5

_BRANCH = re.compile(r"str|int|float|bool|(list|dict|tuple)\[.*\]")

_EXPECTED_BY_TYPE = {
    "string_type": "a string",
    "string_unicode": "a string of valid Unicode",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "an integer of at most 64 bits",
    "int_from_float": "an integer",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "greater_than_equal": "at least {ge}",
    "greater_than": "greater than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "string_too_short": "at least {min_length} characters long",
    "string_too_long": "at most {max_length} characters long",
    "too_short": "at least {min_length} long",
    "too_long": "at most {max_length} long",
    "enum": "one of {expected}",
    "literal_error": "one of {expected}",
}


def validated(model: type[M], members: Mapping[str, Any], place: str = "body") -> M:
    """Return a model of members.

    Raises:
        InvalidRequestError: names the field and what is allowed.
    """
    try:
        return model.model_validate(members)
    except ValidationError as error:
        found = [{**each, "loc": (place, *each["loc"])} for each in error.errors()]
        raise invalid_request(found) from error


def invalid_request(errors: Iterable[Mapping[str, Any]]) -> InvalidRequestError:
    """Turn a `ValidationError`'s list into one error; ``param`` is the first field at fault."""
    explained = [_explained(error) for error in islice(errors, MAX_EXPLAINED)]
    messages, params, codes = zip(*explained, strict=True)
    return InvalidRequestError(" ".join(dict.fromkeys(messages)), param=params[0], code=codes[0])


def _explained(error: Mapping[str, Any]) -> tuple[str, str | None, str]:
    """Return message, param and code of one error."""
    kind, path = error["type"], error["loc"][1:]  # the first part is "body" or "query"
    context = error.get("ctx", {})
    if kind == "json_invalid":
        reason = shortened(str(context["error"]))
        return f"The request body is not valid JSON: {reason}.", None, "invalid_json"
    if not path and kind != "unknown_field":
        return NOT_AN_OBJECT, None, "invalid_value"
    param = ".".join(shortened(str(part)) for part in path if not _is_branch(part))
    if kind == "unknown_field":
        param = f"{param}.{context['member']}" if param else context["member"]
        return f"Unknown field: '{param}'. {context['hint']}", param, "unknown_field"
    if kind == "unserved_field":
        return f"'{param}' is not supported here. {context['advice']}", param, "not_supported"
    if kind == "missing":
        return f"Missing required parameter: '{param}'.", param, "missing_required_parameter"
    if kind not in _EXPECTED_BY_TYPE:
        return f"Invalid '{param}': {error['msg']}.", param, "invalid_value"
    plain = {
        name: value.replace("'", "").replace(" or ", ", ") if isinstance(value, str) else value
        for name, value in context.items()
    }
    expected = _EXPECTED_BY_TYPE[kind].format_map(plain)
    return (
        f"Invalid '{param}'{_shown(error['input'])}. It must be {expected}.",
        param,
        "invalid_value",
    )


def _is_branch(part: str | int) -> bool:
    """Whether pydantic means a branch of a union by this part of a path, and no member."""
    return isinstance(part, str) and _BRANCH.fullmatch(part) is not None


def _shown(value: Any) -> str:
    """Quote a value that is short enough to be of help."""
    if not isinstance(value, str | int | float):
        return ""
    if isinstance(value, str) and len(value) > MAX_SHOWN_CHARACTERS:
        return ""
    shown = str(value).lower() if isinstance(value, bool) else ascii(value)
    return f": {shown}" if len(shown) <= MAX_SHOWN_CHARACTERS else ""
