"""The API does what its description says: no answer that is not declared, and no failure."""

import json
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.api.adapters.errors import service_of
from tests.api.fuzzing import Operation, document, operations
from tests.recordings import RECORDING
from tests.servers import RunningServer

# A book is long, and an example that fails is shown whole whatever it takes.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

NUM_EXAMPLES = 6
MANY_EXAMPLES = 200
MANY_PATHS = 40
"""Of an operation without a body, of which only names and queries vary."""


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
    has_body = "requestBody" in operation.description
    fuzz(client, operation, MANY_EXAMPLES if has_body else MANY_PATHS)


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


def test_the_fields_of_the_loaded_family_are_described(base: RunningServer) -> None:
    found = httpx.get(f"{base.base_url}/openapi.json").json()
    schemas = found["components"]["schemas"]
    options = base.state.speech.model(None).task.options.model_fields
    for name in ("SpeechBody", "SpeechForm", "SpeechBatchBody", "SpeechJobBody"):
        assert set(options) <= set(schemas[name]["properties"]), name
        for option in options:
            assert schemas[name]["properties"][option]["description"], option
    form = schemas["SpeechForm"]["properties"]
    assert form["ref_audio"]["format"] == "binary"
    assert '"null"' not in json.dumps(form), "a form has no nulls"
    speed = schemas["SpeechBody"]["properties"]["subtalker_top_p"]["anyOf"][0]
    assert (speed["exclusiveMinimum"], speed["maximum"]) == (0, 1)
    content = found["paths"]["/v1/audio/speech"]["post"]["requestBody"]["content"]
    assert content["multipart/form-data"]["schema"] == {"$ref": "#/components/schemas/SpeechForm"}
    voice = found["paths"]["/v1/audio/voices"]["post"]["requestBody"]["content"]
    sample = voice["multipart/form-data"]["schema"]["properties"]["audio_sample"]
    assert sample["format"] == "binary"


def test_what_the_form_says_can_clone_a_voice(base: RunningServer) -> None:
    fields = {"input": "Hello.", "ref_text": "I said this.", "max_new_tokens": "4", "top_p": "0.5"}
    fields |= {"pronunciations": '{"a": "b"}', "normalize": "false", "voice": "vivian"}
    files = {"ref_audio": ("voice.wav", RECORDING, "audio/wav")}
    answer = httpx.post(f"{base.base_url}/v1/audio/speech", data=fields, files=files, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "audio/mpeg"


def test_members_that_may_be_null_are_those_that_accept_it(client: httpx.Client) -> None:
    described = document()["components"]["schemas"]["SpeechBody"]
    nullable = {
        name
        for name, each in described["properties"].items()
        if {"type": "null"} in each.get("anyOf", ())
    }
    assert nullable == set(described["properties"]) - set(described["required"])
    assert described["properties"]["input"]["minLength"] == 1
    body = {"input": "Hello.", **dict.fromkeys(nullable)}
    assert client.post("/v1/audio/speech", json=body).status_code == 200
    assert client.post("/v1/audio/speech", json={"input": None}).status_code == 400


def test_names_in_the_document_are_short_and_differ() -> None:
    ids = [operation.description["operationId"] for operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    assert "create_speech" in ids
    schemas = document()["components"]["schemas"]
    assert "SpeechBody" in schemas
    assert not [name for name in schemas if "__" in name or "-" in name]
    titles = [each["title"] for each in schemas.values() if "title" in each]
    assert len(set(titles)) == len(titles)
