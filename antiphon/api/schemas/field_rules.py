"""Marks of request fields that are known and not served, and the refusal of unknown members.

Every field that OpenAI, vLLM, vLLM-Omni or SGLang-Omni define for an endpoint is one of: a plain
field of its model, which is served; `Meaningless`; or `Unserved`.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, TypeAlias

from pydantic import AliasChoices, BaseModel, GetCoreSchemaHandler, model_validator
from pydantic.annotated_handlers import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticOmit, core_schema

from antiphon.contracts.well_formed import StrictModel
from antiphon.errors import InvalidRequestError, listed, shortened

_MAX_OFF_CHARACTERS = 32
_EMPTY: tuple[Any, ...] = ("", [], {}, "null", "[]", "{}")  # the texts are of forms

FieldClass: TypeAlias = Literal["served", "meaningless", "unserved"]


@dataclass(frozen=True, slots=True)
class Meaningless:
    """Marks a field that changes no answer: any value of its type is accepted."""

    reason: str

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        raise PydanticOmit


@dataclass(frozen=True, slots=True)
class Unserved:
    """Marks a field that would change the answer: only values that turn it off are accepted.

    Attributes:
        advice: alternative for the client.
        off: accepted values beside null; the first is the default elsewhere.
        empty_is_off: whether empty texts, lists and objects are accepted too.
    """

    advice: str
    off: tuple[Any, ...] = ()
    empty_is_off: bool = True

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        raise PydanticOmit

    def is_off(self, value: Any) -> bool:
        """Whether a value asks for nothing."""
        if value is None or (self.empty_is_off and value in _EMPTY):
            return True
        return any(_equals(value, off) for off in self.off)

    def _checked(self, value: Any) -> None:
        if self.is_off(value):
            return
        accepted = " or ".join(json.dumps(each) for each in self.off)
        advice = f"{self.advice} Only {accepted} is accepted." if accepted else self.advice
        raise PydanticCustomError("unserved_field", "{advice}", {"advice": advice})


def _equals(value: Any, off: Any) -> bool:
    if isinstance(value, str) and not isinstance(off, str):  # of a form, whose fields are strings
        try:
            value = json.loads(value.lower()) if len(value) <= _MAX_OFF_CHARACTERS else None
        except ValueError:
            return False
    return isinstance(value, bool) == isinstance(off, bool) and bool(value == off)


@cache
def field_classes(model: type[BaseModel]) -> Mapping[str, FieldClass]:
    """Return the names and aliases of a model's fields, and how each is treated."""
    found: dict[str, FieldClass] = {}
    for name, field in model.model_fields.items():
        kind: FieldClass = "served"
        if any(isinstance(mark, Meaningless) for mark in field.metadata):
            kind = "meaningless"
        elif any(isinstance(mark, Unserved) for mark in field.metadata):
            kind = "unserved"
        alias = field.validation_alias
        names = alias.choices if isinstance(alias, AliasChoices) else [alias or name]
        found |= {each: kind for each in names if isinstance(each, str)}
    return found


class KnownMembers(StrictModel):
    """An object of a request. Null means the default; unknown members are refused."""

    @model_validator(mode="before")
    @classmethod
    def _members_are_known(cls, members: Any) -> Any:
        if not isinstance(members, Mapping):
            return members
        known = field_classes(cls)
        for name in members:
            if name not in known:
                context = {"member": shortened(str(name)), "hint": _hint(name, known)}
                raise PydanticCustomError("unknown_field", "{hint}", context)
        return {name: value for name, value in members.items() if value is not None}


def check_known(members: Mapping[str, Any], known: Collection[str], place: str = "") -> None:
    """Check that an object, whose name is ``place`` unless it is a body, has no other members.

    Raises:
        InvalidRequestError: one is unknown.
    """
    for name in members:
        if name not in known:
            raise unknown_field(name, as_served(known), place)


def as_served(names: Iterable[str]) -> dict[str, FieldClass]:
    """Return names as those of fields that are served."""
    return dict.fromkeys(names, "served")


def unknown_field(
    name: Any, known: Mapping[str, FieldClass], place: str = ""
) -> InvalidRequestError:
    """Return the error for an unknown member of an object, as of `check_known`."""
    param = shortened(f"{place}.{name}" if place else str(name))
    message = f"Unknown field: '{param}'. {_hint(name, known)}"
    return InvalidRequestError(message, param=param, code="unknown_field")


def _hint(name: Any, known: Mapping[str, FieldClass]) -> str:
    """Return the sentence that names the known field closest to an unknown one."""
    served = [each for each, kind in known.items() if kind == "served"]
    if near := get_close_matches(str(name)[:64], served, 1):
        return f"Did you mean '{near[0]}'?"
    return f"Known fields: {listed(served)}."
