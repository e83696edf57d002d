"""The API does what its description says: no answer that is not declared, and no failure."""

import json
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.api.adapters.errors import service_of
from antiphon.api.app import create_app
from tests.api.fuzzing import Operation, operations
from tests.servers import TOY

# A book is long, and an example that fails is shown whole whatever it takes.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

NUM_EXAMPLES = 12
MANY_EXAMPLES = 200


@cache
def document() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(json.dumps(create_app(TOY).openapi()))
    return described


OPERATIONS = operations(document())


def check(client: httpx.Client, operation: Operation, request: dict[str, Any]) -> None:
    """Send a request, and compare the answer with what is declared."""
    response = client.request(**request)
    told = f"{response.status_code} to {request}: {response.text[:500]}"
    assert response.status_code < 500, told
    declared = operation.responses.get(
        str(response.status_code), operation.responses.get("default")
    )
    assert declared is not None, f"undeclared: {told}"
    media_type = response.headers.get("content-type", "").partition(";")[0]
    if "content" in declared and response.content:
        types = [each.partition(";")[0] for each in declared["content"]]
        assert media_type in types, f"undeclared type {media_type}: {told}"
    if response.status_code >= 400:
        service = service_of({"path": urlsplit(request["url"]).path, "headers": []})
        if service is None:
            assert set(response.json()) == {"error"}, told
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}, told


def fuzz(client: httpx.Client, operation: Operation, num_examples: int) -> None:
    @settings(
        max_examples=num_examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(client, operation, data.draw(operation.requests()))

    run()


def by_name(operation: Operation) -> str:
    return operation.name


@pytest.mark.parametrize("operation", OPERATIONS, ids=by_name)
def test_every_answer_is_declared(client: httpx.Client, operation: Operation) -> None:
    fuzz(client, operation, NUM_EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=by_name)
def test_every_answer_is_declared_however_often_it_is_asked(
    client: httpx.Client, operation: Operation
) -> None:
    fuzz(client, operation, MANY_EXAMPLES)


def test_what_is_never_answered_is_not_declared() -> None:
    for operation in OPERATIONS:
        assert "422" not in operation.responses
    assert "HTTPValidationError" not in document()["components"]["schemas"]


def test_every_reference_leads_somewhere() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                assert node["$ref"].removeprefix("#/components/schemas/") in schemas
            for each in node.values():
                walk(each)
        elif isinstance(node, list):
            for each in node:
                walk(each)

    schemas = document()["components"]["schemas"]
    walk(document())
