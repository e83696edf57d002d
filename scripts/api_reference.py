"""The API reference, a page of Markdown, made of the server's own OpenAPI description."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

_INTRODUCTION = """# API reference

Every endpoint, made of the description that a server gives at `/openapi.json`. What the fields
mean in full, with examples, is in [the API](api.md). Every answer that is no success has the
[shape of an error](api.md#errors). Models add [fields of their own](qwen3-tts.md#fields).
"""
_MAX_DESCRIPTION = 400


def reference(openapi: Mapping[str, Any]) -> str:
    """Return the page: a section for each tag, with a table of fields for each body."""
    sections: dict[str, list[str]] = {}
    schemas = openapi["components"]["schemas"]
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            sections.setdefault(tag, []).append(_operation(method, path, operation, schemas))
    parts = [_INTRODUCTION]
    for tag, operations in sections.items():
        parts += [f"## {tag.capitalize()}", *operations]
    return "\n\n".join(parts) + "\n"


def _operation(
    method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Schema]
) -> str:
    parts = [f"### `{method.upper()} {path}`", _plain(operation.get("description", ""))]
    if rows := [_parameter(each) for each in operation.get("parameters", [])]:
        parts.append(_table(("parameter", "in", "type", "meaning"), rows))
    content = operation.get("requestBody", {}).get("content", {})
    bodies: dict[str, list[str]] = {}
    for media_type, body in content.items():
        bodies.setdefault(_fields(body.get("schema", {}), schemas), []).append(media_type)
    for table, media_types in bodies.items():
        parts += [f"Body: {', '.join(f'`{each}`' for each in media_types)}", table]
    answers = [
        f"{status}: {_cell(_plain(answer.get('description', '')))}"
        for status, answer in operation["responses"].items()
        if status.isdigit() and int(status) < 300
    ]
    return "\n\n".join(part for part in [*parts, *answers] if part)


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, ...]:
    schema = parameter.get("schema", {})
    meaning = parameter.get("description", schema.get("description", ""))
    return f"`{parameter['name']}`", parameter["in"], _type(schema), _plain(meaning)


def _fields(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    resolved = _resolved(schema, schemas)
    required = resolved.get("required", ())
    rows = [
        (
            f"`{name}`" + (" (required)" if name in required else ""),
            _type(field),
            _default(field),
            _plain(field.get("description", "")),
        )
        for name, field in resolved.get("properties", {}).items()
    ]
    return _table(("field", "type", "default", "meaning"), rows) if rows else ""


def _resolved(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    target = schema.get("$ref")
    return schema if target is None else schemas[target.rpartition("/")[2]]


def _type(schema: Schema) -> str:
    """Return a field's type in a few words, without ``null``."""
    return ", ".join(dict.fromkeys(_types(schema)))


def _types(schema: Schema) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    elif "enum" in schema:
        yield from (f"`{value}`" for value in schema["enum"])
    elif "const" in schema:
        yield f"`{schema['const']}`"
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _types(each)
    elif schema.get("type") == "array":
        yield f"list of {_type(schema.get('items', {})) or 'anything'}"
    elif schema.get("type") not in (None, "null"):
        yield str(schema["type"])


def _default(schema: Schema) -> str:
    value = schema.get("default")
    return "" if value is None else f"`{value}`"


def _plain(text: str) -> str:
    """Return a docstring as Markdown: one kind of code, no broken lines within paragraphs."""
    paragraphs = re.split(r"\n\s*\n", text.replace("``", "`"))
    return "\n\n".join(" ".join(each.split()) for each in paragraphs).strip()


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, cells))} |" for cells in lines)


def _cell(text: str) -> str:
    return text.replace("\n\n", " ").replace("|", "\\|")[:_MAX_DESCRIPTION]
