"""Values that can be stored, logged and answered: valid Unicode, finite numbers, bounded depth.

`StrictModel` is the base of every model of what clients send.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema, PydanticKnownError
from pydantic_core.core_schema import no_info_wrap_validator_function

from antiphon.errors import InvalidRequestError, invalid, shortened

MAX_DEPTH = 32
_MAX_INT64 = 2**63 - 1
_SLICE_CHARACTERS = 64 * 1024  # Encoding in slices takes no memory that has to be mapped first
_INNER = (
    *("schema", "items_schema", "keys_schema", "values_schema", "extras_schema"),
    *("choices", "definitions"),
)
"""Members of a core schema that hold others."""


Options = TypeVar("Options", bound=BaseModel)


def _integer(value: Any, validate: Callable[[Any], int]) -> int:
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    number = validate(value)
    if not -_MAX_INT64 - 1 <= number <= _MAX_INT64:
        raise PydanticKnownError("int_parsing_size")
    return number


def _number(value: Any, validate: Callable[[Any], float]) -> float:
    if isinstance(value, bool):
        raise PydanticKnownError("float_type")
    return validate(value)


_CHECKS: Mapping[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "int": _integer,
    "float": _number,
}


def _with_strict_numbers(node: Any, model: type[BaseModel]) -> Any:
    """Return a core schema whose numbers take no booleans, and no integers beyond 64 bits."""
    if isinstance(node, list | tuple):
        return type(node)(_with_strict_numbers(each, model) for each in node)
    if not isinstance(node, dict):
        return node  # the label of a choice
    if "type" not in node:  # the choices of a union with a discriminator
        return {name: _with_strict_numbers(each, model) for name, each in node.items()}
    kind = node["type"]
    if kind in _CHECKS:
        return no_info_wrap_validator_function(_CHECKS[kind], node)
    if kind == "model" and node["cls"] is not model:  # its own base has seen to it
        return node
    found = {name: _with_strict_numbers(node[name], model) for name in _INNER if name in node}
    if kind == "model-fields":
        fields = node["fields"].items()
        found["fields"] = {name: _with_strict_numbers(field, model) for name, field in fields}
    return {**node, **found}


class StrictModel(BaseModel):
    """Base of models of requests: one rule for numbers, texts and depth, whatever the field.

    A boolean is no number, integers have at most 64 bits, other numbers are finite, and all
    members, those of unknown names too, pass `check_members`.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        found: CoreSchema = _with_strict_numbers(handler(source), cls)
        return found

    @model_validator(mode="before")
    @classmethod
    def _well_formed(cls, members: Any) -> Any:
        if isinstance(members, Mapping):
            check_members(cls.checked_members(members))
        return members

    @classmethod
    def checked_members(cls, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the members that are to be well-formed: all, unless others check the rest."""
        return members


def check_members(members: Mapping[str, Any]) -> None:
    """Refuse members that could not be written down again: in a log, an answer, a database.

    Raises:
        InvalidRequestError: one holds half a surrogate pair, NaN, an infinity or an integer of more
            than 64 bits anywhere, or is nested too deeply.
    """
    for name, value in members.items():
        wrong = "a string of valid Unicode" if not is_encodable(name) else _fault(value, name)
        if wrong:
            param = shortened(str(name))
            raise InvalidRequestError(f"Invalid '{param}'. It must be {wrong}.", param=param)


def check_range(param: str, value: float, low: float, high: float) -> None:
    """Refuse a number below ``low`` or above ``high``, or NaN; raises InvalidRequestError."""
    if not low <= value <= high:
        # An integer may have too many digits to be a float, or to be written out.
        shown = "it is out of range" if abs(value) > _MAX_INT64 else f"{value:g}"
        raise invalid(param, f"{shown}. Allowed: {low:g} to {high:g}")


def is_encodable(text: str) -> bool:
    """Whether a text has an encoding."""
    if text.isascii():  # which is known without a look at a text of megabytes
        return True
    try:
        for start in range(0, len(text), _SLICE_CHARACTERS):
            text[start : start + _SLICE_CHARACTERS].encode()
    except UnicodeEncodeError:
        return False
    return True


def _fault(value: Any, name: str) -> str | None:
    """Return what some value inside must be and is not, level by level."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for each in level:
            match each:
                case Mapping() as members:
                    inner.extend(members)
                    inner.extend(members.values())
                case list() | tuple() as items:
                    inner.extend(items)
                case _ if (fault := _fault_of_one(each)) is not None:
                    return fault
        if not inner:
            return None
        level = inner
    raise invalid(
        shortened(str(name)), f"it is nested too deeply; at most {MAX_DEPTH} levels are allowed"
    )


def _fault_of_one(value: Any) -> str | None:
    match value:
        case str() as text if not is_encodable(text):
            return "a string of valid Unicode"
        case int() as number if not -_MAX_INT64 - 1 <= number <= _MAX_INT64:
            return "a number of at most 64 bits"
        case float() as number if not math.isfinite(number):
            return "a finite number"
    return None


class StrictOptions(StrictModel):
    """The options of a task: by itself none, a family's add fields."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


def read_options(model: type[Options], values: Mapping[str, Any]) -> Options:
    """Validate options by a model that forbids unknown ones; raises InvalidRequestError."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        param = str(first["loc"][0]) if first["loc"] else "options"
        if first["type"] == "extra_forbidden":
            known = ", ".join(model.model_fields) or "none"
            message = f"Unknown parameter: '{param}'. This model knows: {known}."
        else:
            message = f"Invalid '{param}': {first['msg']}."
        raise InvalidRequestError(message, param=param) from error
