"""Requests made from the API's own description: right ones, nearly right ones, and nonsense."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from antiphon.api.app import create_app
from tests.servers import TOY

MAX_CHARACTERS = 40
MAX_TOKENS = 50
"""What is spoken stays short."""

TEXT = st.text(max_size=MAX_CHARACTERS)
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@cache
def document() -> dict[str, Any]:
    """Return what the API says of itself; it takes half a second to make."""
    described: dict[str, Any] = json.loads(json.dumps(create_app(TOY).openapi()))
    return described


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    description: Mapping[str, Any]
    document: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def responses(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.description["responses"]
        return found

    @property
    def json_schema(self) -> Mapping[str, Any] | None:
        content = self.description.get("requestBody", {}).get("content", {})
        found: Mapping[str, Any] | None = content.get("application/json", {}).get("schema")
        return found

    def requests(self) -> SearchStrategy[dict[str, Any]]:
        """Return what httpx is to be called with."""
        parameters = self.description.get("parameters", [])
        paths = {
            each["name"]: TEXT.filter(lambda text: text.strip(".") and "/" not in text)
            for each in parameters
            if each["in"] == "path"
        }
        queries = {
            each["name"]: self._values(each["schema"]) | JUNK
            for each in parameters
            if each["in"] == "query"
        }
        return st.builds(
            self._request,
            st.fixed_dictionaries(paths),
            st.fixed_dictionaries({}, optional=queries),
            self._bodies(),
        )

    def _request(
        self, names: dict[str, str], query: dict[str, Any], body: dict[str, Any]
    ) -> dict[str, Any]:
        path = self.path
        for name, value in names.items():
            encoded = quote(value.encode("utf-8", "replace"), safe="")
            path = path.replace(f"{{{name}}}", encoded)
        params = {
            name: str(value).encode("utf-8", "replace").decode() for name, value in query.items()
        }
        return {"method": self.method, "url": path, "params": params, **body}

    def _bodies(self) -> SearchStrategy[dict[str, Any]]:
        content = self.description.get("requestBody", {}).get("content", {})
        kinds: list[SearchStrategy[dict[str, Any]]] = []
        for media_type, described in content.items():
            values = self._objects(self.resolved(described["schema"]))
            if media_type == "application/json":
                kinds.append(st.builds(lambda body: {"json": body}, values | JUNK))
            else:
                kinds.append(st.builds(_as_form, values))
        raw = st.builds(lambda body: {"content": body}, st.binary(max_size=50))
        return st.one_of(*kinds, *kinds, raw) if kinds else st.just({})

    def _objects(self, schema: Mapping[str, Any]) -> SearchStrategy[Any]:
        """Return right objects, and those of which one member is wrong."""
        known = {name: self._values(each) for name, each in schema.get("properties", {}).items()}
        required = set(schema.get("required", ()))
        right = st.fixed_dictionaries(
            {name: known[name] for name in known if name in required},
            optional={name: known[name] for name in known if name not in required},
        )
        right = right.map(_bounded)
        if not known:
            return right
        wrong = st.dictionaries(st.sampled_from(sorted(known)), JUNK, min_size=1, max_size=1)
        return right | st.builds(lambda one, other: _bounded({**one, **other}), right, wrong)

    def _values(self, schema: Mapping[str, Any]) -> SearchStrategy[Any]:
        schema = self.resolved(schema)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return st.one_of(*(self._values(each) for each in schema[key]))
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        if schema.get("type") == "array":
            return st.lists(self._values(schema.get("items", {})), max_size=3)
        if schema.get("type") == "object":
            return self._objects(schema)
        return _plain(schema)

    def resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a schema refers to, or itself."""
        while "$ref" in schema:
            found: Any = self.document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        return schema


def operations(document: Mapping[str, Any]) -> list[Operation]:
    return [
        Operation(method, path, description, document)
        for path, methods in document["paths"].items()
        for method, description in methods.items()
    ]


def _plain(schema: Mapping[str, Any]) -> SearchStrategy[Any]:
    low, high = _bounds(schema)
    kinds: dict[str, SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "string": TEXT,
    }
    match schema.get("type"):
        case "integer":
            return st.integers(low, high)
        case "number":
            return st.floats(low, high, allow_nan=False, allow_infinity=False)
        case kind:
            return kinds.get(str(kind), JUNK)


def _bounds(schema: Mapping[str, Any]) -> tuple[Any, Any]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    return low, schema.get("maximum", schema.get("exclusiveMaximum"))


def _bounded(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without answers that are only long: these take time and show nothing more."""
    bounded = dict(body)
    if body.get("ignore_eos") is True:
        limit = "max_tokens" if "messages" in body else "max_new_tokens"
        bounded[limit] = MAX_TOKENS
    if isinstance(least := body.get("min_tokens"), int):
        bounded["min_tokens"] = min(least, MAX_TOKENS)
    return bounded


def _as_form(fields: Mapping[str, Any]) -> dict[str, Any]:
    parts = {
        str(name): (None, str(value).encode("utf-8", "replace")) for name, value in fields.items()
    }
    return {"files": parts or {"nothing": (None, b"")}}
