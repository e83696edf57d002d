"""Requests of a megabyte, from the API's description: each valid but for what is long in it."""

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from tests.api.fuzzing import Operation

NUM_BYTES = 1_000_000
Place: TypeAlias = tuple[str | int, ...]
"""Of a value in a body."""


def _of(piece: str) -> Callable[[int], str]:
    def text(num_bytes: int) -> str:
        return piece * (num_bytes // len(piece.encode()))

    return text


TEXTS: Mapping[str, Callable[[int], str]] = {
    "word": _of("a"),
    "sentences": _of("Hello there. "),
    "cjk": _of("你好。"),
    "digits": _of("7"),
    "numbers": _of("1,234.5 "),
    "money": _of("$1,000,000.99 "),
    "spaces": _of(" "),
    "newlines": _of("\n"),
    "marks": _of("!"),
    "dots": _of("."),
    "brackets": _of("["),
    "tags": _of("<"),
    "special": _of("<|im_end|>"),
    "pauses": _of("[pause:1ms]"),
    "markdown": _of("**a** `b` [c](http://d.e/f) | g |\n"),
    "stars": _of("*"),
    "ticks": _of("`"),
    "links": _of("[a]("),
    "table": _of("| a "),
    "address": _of("http://a.b/c?"),
    "at": _of("a@"),
    "emoji": _of("\U0001f468\u200d\U0001f469\u200d\U0001f467"),
    "accents": _of("\u0301"),
    "hangul": _of("\u1112\u1161\u11ab"),
    "arabic": _of("\ufdfa"),
    "base64": _of("UklGRiQAAABXQVZF"),
    "data uri": lambda num_bytes: "data:audio/wav;base64," + "A" * num_bytes,
}
"""Texts of so many bytes."""


@dataclass(frozen=True)
class LongBody:
    """A body to send.

    Attributes:
        name: what is long in it.
        content: makes it, as JSON.
    """

    name: str
    content: Callable[[], bytes]


def bodies(
    operation: Operation, defaults: Mapping[str, Any], lengths: Iterable[int]
) -> Generator[LongBody, None, None]:
    """Yield bodies of an operation: each text long in turn, then what no member is for."""
    schema = operation.json_schema
    if schema is None:
        return
    right = {**example(operation, schema), **defaults}
    for path in strings_of(operation, schema):
        for length in lengths:
            for kind, text in TEXTS.items():
                name = f"{'.'.join(map(str, path))}: {length} bytes of {kind}"
                yield LongBody(name, partial(_long, right, path, text, length))
    yield from odd_bodies(right)


def odd_bodies(right: Mapping[str, Any]) -> Generator[LongBody, None, None]:
    """Yield what is long otherwise than by a member's text."""
    for name, member in ODD_MEMBERS.items():
        yield LongBody(f"odd: {name}", partial(_with_member, right, member))
    members: dict[str, dict[str, Any]] = {
        "name": {"a" * NUM_BYTES: 1},
        "names": {f"name{number}": "é" * 90 for number in range(4_000)},
        "params": {"extra_params": {"x": "a" * NUM_BYTES}},
    }
    for name in ("pronunciations", "metadata", "logit_bias", "chat_template_kwargs"):
        members[name] = {name: {f"w{number}": "b" * 200 for number in range(4_900)}}
    for name, more in members.items():
        yield LongBody(f"odd: {name}", partial(_json, {**right, **more}))


def _long(right: Mapping[str, Any], path: Place, text: Callable[[int], str], length: int) -> bytes:
    return _json(replaced(right, path, text(length)))


def _with_member(right: Mapping[str, Any], member: bytes) -> bytes:
    return json.dumps(right)[:-1].encode() + b', "odd": ' + member + b"}"


ODD_MEMBERS: Mapping[str, bytes] = {
    "depth": b"[" * 9_000 + b"]" * 9_000,
    "objects": b'{"a":' * 9_000 + b"1" + b"}" * 9_000,
    "list": b"[" + b",".join([b'"' + b"a" * 200 + b'"'] * 4_900) + b"]",
    "number": b"1" * (NUM_BYTES - 100_000),
    "fraction": b"0." + b"1" * (NUM_BYTES - 100_000),
    "white space": b" " * (NUM_BYTES - 100_000) + b"1",
    "escapes": b'"' + b"\\n" * 490_000 + b'"',
    "long escapes": b'"' + b"\\u4f60" * 160_000 + b'"',
    "surrogates": b'"' + b"\\ud83d\\ude00" * 80_000 + b'"',
}


def example(operation: Operation, schema: Mapping[str, Any]) -> Any:
    schema = operation.resolved(schema)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return example(operation, schema[key][0])
    given = [schema[key] for key in ("const", "default") if key in schema]
    given += [schema[key][0] for key in ("enum", "examples") if key in schema]
    if given:
        return given[0]
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            members = schema.get("properties", {}).items()
            return {name: example(operation, each) for name, each in members if name in required}
        case "array":
            return [example(operation, schema.get("items", {}))]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
    return "Hello."


def strings_of(
    operation: Operation, schema: Mapping[str, Any], depth: int = 0
) -> Generator[Place, None, None]:
    schema = operation.resolved(schema)
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())] or [schema]
    seen: set[Place] = set()
    for branch in map(operation.resolved, branches):
        for path in _strings_of(operation, branch, depth):
            if path not in seen:
                seen.add(path)
                yield path


def _strings_of(
    operation: Operation, schema: Mapping[str, Any], depth: int
) -> Generator[Place, None, None]:
    if schema.get("type") == "string":
        yield ()
    if depth > 4:
        return
    if schema.get("type") == "array":
        inner = strings_of(operation, schema.get("items", {}), depth + 1)
        yield from ((0, *path) for path in inner)
    for name, each in schema.get("properties", {}).items():
        yield from ((name, *path) for path in strings_of(operation, each, depth + 1))


def replaced(value: Any, path: Place, text: str) -> Any:
    if not path:
        return text
    place, *rest = path
    if isinstance(place, int):
        first = value[0] if isinstance(value, list) and value else {}
        return [replaced(first, tuple(rest), text)]
    members = value if isinstance(value, Mapping) else {}
    return {**members, place: replaced(members.get(place), tuple(rest), text)}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
