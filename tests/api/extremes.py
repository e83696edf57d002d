"""Extreme values for every field of every body, query and message, made from their schemas."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.api.fuzzing import Operation

HUGE = 10**400
HALF = "\ud800"
BLANK = " " * 150_000
"""Longer than what is spoken at once may be, and nothing that would take long to speak."""
NUMBERS: tuple[Any, ...] = (HUGE, -HUGE, 1e-40, -1e-40, 1e308, float("nan"), float("inf"), 2**63)
OTHERS: tuple[Any, ...] = (
    *(True, False, None, "", "\0", HALF, f"a{HALF}b", "x" * 400, BLANK, 0, -1, 1.5, "1e400"),
    *([], {}, [None], [[[None]]], {"": None}, {HALF: {"a": [None, HUGE]}}, [HALF]),
)
EXTREMES = (*NUMBERS, *OTHERS)
TEXTS = (
    "9" * 400,
    "-" + "9" * 400,
    "1e400",
    "1e-40",
    "NaN",
    "true",
    "",
    "\0",
    "x" * 4000,
    "[",
    "é",
)
"""As queries and forms have them."""
MAX_DEPTH = 4

Path = tuple[str | int, ...]

BASES: Mapping[str, Mapping[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 2},
    "/v1/audio/speech/batch": {"items": [{"input": "Hi."}]},
    "/v1/audio/jobs": {"input": "Hi."},
    "/v1/text-to-dialogue": {"inputs": [{"text": "Hi.", "voice_id": "default"}]},
    "/v1/videos": {"prompt": "Hi.", "size": "64x64", "num_frames": 1, "num_inference_steps": 1},
    "/v1/images": {"prompt": "Hi.", "size": "64x64", "num_inference_steps": 1},
    "/v1/vapi/speech": {"message": {"type": "voice-request", "text": "Hi."}},
    "/v1/audio/dialogue": {"turns": [{"voice": "default", "text": "Hi."}]},
}
"""What is right about bodies whose schemas do not say it, by the beginnings of paths."""


def base_of(path: str, schema: Mapping[str, Any], operation: Operation) -> dict[str, Any]:
    """Return a body that is right, or as near to it as its schema says."""
    found = [base for start, base in BASES.items() if path.startswith(start)]
    if found:
        return dict(found[0])
    return {
        name: "Hi." for name in schema.get("required", ()) if name in schema.get("properties", {})
    }


def places(
    schema: Mapping[str, Any], document: Mapping[str, Any], depth: int = 0
) -> Iterator[Path]:
    """Yield where a value may stand in what a schema describes, fields of fields included."""
    schema = resolved(schema, document)
    if depth > MAX_DEPTH:
        return
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from places(branch, document, depth)
    for name, inner in schema.get("properties", {}).items():
        yield (name,)
        yield from ((name, *path) for path in places(inner, document, depth + 1))
    if "items" in schema:
        yield (0,)
        yield from ((0, *path) for path in places(schema["items"], document, depth + 1))


def resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def placed(base: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    if isinstance(first, int):
        items = base if isinstance(base, list) and base else [None]
        return [placed(items[0], tuple(rest), value), *items[1:]]
    members = base if isinstance(base, dict) else {}
    return {**members, first: placed(members.get(first), tuple(rest), value)}


def requests(operation: Operation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is extreme, and what httpx is to be called with."""
    url, parameters = operation.path, operation.description.get("parameters", [])
    for each in parameters:
        if each["in"] == "path":
            url = url.replace(f"{{{each['name']}}}", "default")
    call = {"method": operation.method, "url": url}
    bodies = dict(_bodies(operation))
    right = next(iter(bodies.values()), [{}])[0]
    for each in parameters:
        for text in TEXTS:
            what = f"{each['in']} {each['name']}={text[:20]!r}"
            if each["in"] == "query":
                yield what, {**call, **right, "params": {each["name"]: text}}
            elif each["in"] == "path":
                path = operation.path.replace(f"{{{each['name']}}}", _quoted(text) or "%ED%A0%80")
                yield what, {**call, **right, "url": path.replace("{", "").replace("}", "")}
    for what, (_, body) in bodies.items():
        yield what, {**call, **body}


def _bodies(operation: Operation) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    content = operation.description.get("requestBody", {}).get("content", {})
    for media_type, described in content.items():
        schema = resolved(described["schema"], operation.document)
        base = base_of(operation.path, schema, operation)
        found = [*dict.fromkeys(places(schema, operation.document))]
        if media_type == "application/json":
            for path in found:
                for value in EXTREMES:
                    body = as_json(placed(base, path, value))
                    what = f"{'.'.join(map(str, path))}={value!r:.20}"
                    yield what, [as_json(base), body]
        else:
            for path in found:
                for text in TEXTS if len(path) == 1 else ():
                    fields: dict[Any, Any] = {**base, path[0]: text}
                    yield f"form {path[0]}={text!r:.20}", [_form(base), _form(fields)]


def as_json(value: Any) -> dict[str, Any]:
    return {"content": json.dumps(value), "headers": {"Content-Type": "application/json"}}


def _form(fields: Mapping[Any, Any]) -> dict[str, Any]:
    parts: dict[str, Any] = {str(name): (None, str(each)) for name, each in fields.items()}
    return {"files": parts or {"nothing": (None, b"")}}


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())
