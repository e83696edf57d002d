"""The API's own description, with what every route may answer beside what it says itself."""

from typing import Any

from fastapi import FastAPI

from antiphon.api.gate import PROBES

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
"""What FastAPI says of its own accord; here it is 400."""
_ERROR = {
    "application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}},
}


class DescribedApi(FastAPI):
    """An app that describes itself fully."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, made when it is first asked for."""
        if self.openapi_schema is None:
            document = super().openapi()
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    _complete(path, method, operation)
            for name in ("HTTPValidationError", "ValidationError"):
                document["components"]["schemas"].pop(name, None)
            self.openapi_schema = document
        assert self.openapi_schema is not None
        return self.openapi_schema


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
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
