"""The API's own description: what the loaded models take, and what every route may answer."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from fastapi import FastAPI

from antiphon.api.middleware.connection_limits import PROBES, SPEECH_PATH
from antiphon.api.schemas.nullable import allow_null
from antiphon.contracts.family import Task

Schema: TypeAlias = dict[str, Any]

SPEECH, BATCH, JOB = "SpeechBody", "SpeechBatchBody", "SpeechJobBody"
FORM = "SpeechForm"
_ITEM_ONLY = ("input", "stream", "stream_format")
_FILE = {"type": "string", "format": "binary"}
_FORM = "multipart/form-data"

_KEYS: Schema = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "If the server has API keys."},
}
_METHODS_WITH_WORK = ("post", "put", "patch", "delete")
_EVERYWHERE = {
    "400": "Something in the request is wrong; 'param' names it.",
    "401": "The API key is missing or wrong.",
    "500": "The server or the model failed.",
    "503": "The server is starting, stopping or full; see Retry-After.",
}
_WITH_BODY = {"408": "The body took too long to arrive.", "413": "The body is too large."}
_WITH_WORK = {"429": "Too much at once; see Retry-After."}
_WITH_NAMES = {"404": "There is nothing of this name."}
_NEVER = "422"
"""Status of FastAPI's own validation errors; ours is 400."""
_ERROR = {
    "application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}},
}


class DescribedApi(FastAPI):
    """An app that describes itself fully.

    Attributes:
        loaded_tasks: returns the tasks that are served, by family; none before they are loaded.
    """

    loaded_tasks: Callable[[], Mapping[str, Task]] = staticmethod(dict)

    def openapi(self) -> Schema:
        """Return the OpenAPI document, made when it is first asked for after the start."""
        if self.openapi_schema is not None:
            return self.openapi_schema
        tasks = self.loaded_tasks()
        document = super().openapi()
        self.openapi_schema = None  # the framework has kept what is not finished
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                _complete(path, method, operation)
        schemas = document["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        _describe_bodies(document, tasks)
        _name_operations(document)
        document["components"]["securitySchemes"] = _KEYS
        document["security"] = [{}, *({name: []} for name in _KEYS)]
        if tasks:
            self.openapi_schema = document
        return document


def _name_operations(document: Schema) -> None:
    """Name operations after their functions, where a function serves one operation only."""
    operations = [
        (operation, re.sub(r"\W", "_", path) + f"_{method}")
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    names = [operation["operationId"].removesuffix(address) for operation, address in operations]
    for (operation, _), name in zip(operations, names, strict=True):
        if names.count(name) == 1:
            operation["operationId"] = name


def _describe_bodies(document: Schema, tasks: Mapping[str, Task]) -> None:
    """Add the fields that the families know, to all bodies that have the fields of a request."""
    schemas = document["components"]["schemas"]
    speech = schemas[SPEECH]
    recordings = {name for task in tasks.values() for name in task.recordings}
    for family_name, task in tasks.items():
        _add_options(schemas, family_name, task)
    shared = {name: each for name, each in speech["properties"].items() if name not in _ITEM_ONLY}
    for name in (BATCH, JOB):
        own = schemas[name]["properties"]
        schemas[name]["properties"] = {**own, **{k: v for k, v in shared.items() if k not in own}}
    item = {"$ref": f"#/components/schemas/{SPEECH}"}
    schemas[BATCH]["properties"]["items"]["items"] = item
    content = document["paths"][SPEECH_PATH]["post"]["requestBody"]["content"]
    schemas[FORM] = _as_form(speech, recordings)
    content[_FORM] = {"schema": {"$ref": f"#/components/schemas/{FORM}"}}


def _add_options(schemas: Schema, family_name: str, task: Task) -> None:
    """Add a family's fields to those of a request; what is there already stays."""
    described = task.options.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= described.pop("$defs", {})
    properties = schemas[SPEECH]["properties"]
    for name, option in described.get("properties", {}).items():
        option.pop("default", None)
        option["description"] = f"{option.get('description', '')} ({family_name})".strip()
        allow_null(option)
        properties.setdefault(name, option)


def _as_form(speech: Schema, recordings: Iterable[str]) -> Schema:
    """Return the schema of the same fields as a form: no nulls, and recordings are files."""
    properties = {name: _without_null(each) for name, each in speech["properties"].items()}
    properties["voice"] = {"type": "string", "description": properties["voice"]["description"]}
    for name, each in properties.items():
        if each.get("type") == "array":  # repeated parts mean other things to every library
            text = f"{each.get('description', '')} As JSON.".strip()
            properties[name] = {"type": "string", "description": text}
    for name in recordings:
        text = speech["properties"][name].get("description", "")
        properties[name] = {**_FILE, "description": f"{text} As a file."}
    return {
        "type": "object",
        "title": FORM,
        "description": "The same fields, of which recordings are files.",
        "properties": properties,
        "required": speech["required"],
    }


def _without_null(described: Schema) -> Schema:
    """Return a field that is there or not, but never null; one kind needs no ``anyOf``."""
    rest = {name: value for name, value in described.items() if name != "anyOf"}
    kinds = [each for each in described.get("anyOf", ()) if each != {"type": "null"}]
    if rest.get("default", "") is None:
        del rest["default"]
    if len(kinds) == 1:
        return {**kinds[0], **rest}
    return {**rest, **({"anyOf": kinds} if kinds else {})}


def _complete(path: str, method: str, operation: Schema) -> None:
    """Add the answers that middleware gives, and those to names that are not there."""
    responses = operation["responses"]
    responses.pop(_NEVER, None)
    common = dict(_EVERYWHERE)
    if path in PROBES:
        common = {status: common[status] for status in ("401", "503")}
    if method in _METHODS_WITH_WORK:
        common |= _WITH_WORK | _WITH_BODY
    if operation.get("parameters") or "requestBody" in operation:
        common |= _WITH_NAMES
    for status, description in common.items():
        responses.setdefault(status, {"description": description, "content": _ERROR})
