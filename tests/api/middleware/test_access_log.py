"""Requests are counted by their routes and traced; no client can make up a label."""

import re
import socket
from collections.abc import Generator, Iterator
from typing import Any

import httpx
import pytest
from opentelemetry import context, trace

from antiphon.errors import SettingsError
from antiphon.telemetry import tracing
from tests.servers import DEADLINE_S, RunningServer, wait_until
from tests.sockets import connected

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


def counted(client: httpx.Client, name: str) -> dict[str, float]:
    """Return the values of a metric by their labels."""
    text = client.get("/metrics").text
    found = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE)
    return {labels: float(number) for labels, number in found}


def test_routes_are_counted_as_they_are_written(client: httpx.Client) -> None:
    client.get("/v1/models/tts-1")
    client.get("/v1/models/never-heard-of")
    found = counted(client, "antiphon_http_requests_total")
    route = 'method="GET",route="/v1/models/{model_id:path}"'
    assert found[f'{route},status="200"'] >= 1
    assert found[f'{route},status="404"'] >= 1


def test_no_client_makes_up_a_label(client: httpx.Client) -> None:
    before = len(counted(client, "antiphon_http_requests_total"))
    for number in range(20):
        client.get(f"/nowhere/{number}", headers={"X-Request-Id": str(number)})
        client.request(f"METHOD{number}", "/v1/models")
        client.post("/v1/audio/speech", json={"input": "x", "voice": f"voice-{number}"})
        client.post("/v1/audio/speech", json={"input": "x", "model": f"model-{number}"})
    text = client.get("/metrics").text
    assert not re.search(r"nowhere|METHOD\d|voice-\d|model-\d", text)
    assert len(counted(client, "antiphon_http_requests_total")) <= before + 5


PATH = "/v1/audio/speech"
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "


def posted(content: str, path: str = PATH) -> str:
    return f"{HEAD.replace(PATH, path)}{len(content)}\r\n\r\n{content}"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (posted('{"input": "x", "voice": "nobody"}'), "voice_not_found"),
        (posted('{"input": 1}'), "invalid_value"),
        (posted('{"input": "'), "invalid_json"),
        (posted("[" * 20_000), "json_too_large"),
        (f"{HEAD}999999999999\r\n\r\n", "request_too_large"),
        ("GET /v1/nowhere HTTP/1.1\r\nHost: a\r\n\r\n", "not_found"),
        ("PUT /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", "method_not_allowed"),
        ("GET /v1/models HTTP/1.1\r\nHost: example.com\r\n\r\n", "invalid_value"),
        ("no request\r\n\r\n", "bad_request"),
        (posted('{"items": [{"input": "x", "voice": "a"}]}', f"{PATH}/batch"), "voice_not_found"),
    ],
    ids=lambda each: each if each.isidentifier() else "",
)
def test_an_error_is_counted_once_by_its_code(
    server: RunningServer, client: httpx.Client, sent: str, code: str
) -> None:
    before = counted(client, "antiphon_errors_total")
    with socket.create_connection(("127.0.0.1", server.port), DEADLINE_S) as connection:
        connection.sendall(sent.encode())
        assert connection.recv(2**16)
    after = counted(client, "antiphon_errors_total")
    label = f'code="{code}",stage="start"'
    assert after == {**before, label: before.get(label, 0) + 1}


def test_errors_within_a_websocket_are_counted(server: RunningServer, client: httpx.Client) -> None:
    label = 'code="invalid_json",stage="stream"'
    before = counted(client, "antiphon_errors_total").get(label, 0)
    with connected(server, "/v1/audio/speech/stream") as talk:
        talk.connection.send("{")
        assert talk.connection.recv(timeout=DEADLINE_S)
    assert counted(client, "antiphon_errors_total")[label] == before + 1


def test_websockets_are_counted_while_they_are_open(
    server: RunningServer, client: httpx.Client
) -> None:
    def num_open() -> float:
        return float(re.findall(r"^antiphon_sockets_open (\S+)$", text(), re.MULTILINE)[0])

    def text() -> str:
        return client.get("/metrics").text

    before = num_open()
    with connected(server, "/v1/audio/speech/stream"):
        assert num_open() == before + 1
    wait_until(lambda: num_open() == before)


class Span(trace.NonRecordingSpan):
    """Notes its name, parent and end."""

    def __init__(self, name: str, parent: trace.SpanContext) -> None:
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        super().__init__(trace.SpanContext(parent.trace_id or 1, id(self), False, flags))
        self.name, self.parent, self.num_ends = name, parent, 0

    def is_recording(self) -> bool:
        return not self.num_ends

    def end(self, end_time: int | None = None) -> None:
        self.num_ends += 1


class Tracer(trace.Tracer):
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_span(
        self, name: str, context: context.Context | None = None, *_: Any, **__: Any
    ) -> Span:
        self.spans.append(Span(name, trace.get_current_span(context).get_span_context()))
        return self.spans[-1]

    def start_as_current_span(
        self, name: str, context: context.Context | None = None, *_: Any, **__: Any
    ) -> Any:
        return trace.use_span(self.start_span(name, context), end_on_exit=True)


class Provider(trace.TracerProvider):
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def get_tracer(self, *_: Any, **__: Any) -> Tracer:
        return self._tracer


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Span]]:
    tracer = Tracer()
    monkeypatch.setattr(trace, "get_tracer", lambda name: tracer)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: Provider(tracer))
    tracing.switch(on=True)
    yield tracer.spans
    tracing.switch(on=False)


@pytest.mark.parametrize("body", [{"json": {"input": "Hello."}}, {"data": {"input": "Hello."}}])
def test_a_request_is_a_part_of_its_clients_trace(
    client: httpx.Client, spans: list[Span], body: dict[str, Any]
) -> None:
    headers = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"}
    client.post("/v1/audio/speech", headers=headers, **body)
    names = [span.name for span in spans]
    assert sorted(names) == ["POST", "first audio", "first chunk", "prompt"]  # no other library's
    wait_until(lambda: all(span.num_ends for span in spans))
    assert {span.num_ends for span in spans} == {1}
    assert {f"{span.get_span_context().trace_id:032x}" for span in spans} == {TRACE_ID}


def test_without_traces_nothing_is_done(client: httpx.Client) -> None:
    def stream() -> Generator[None, None, None]:
        yield

    pulled: Any = stream()
    assert tracing.until_first("name", pulled) is pulled


def test_traces_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_IS_INSTALLED", False)
    with pytest.raises(SettingsError, match="scripts/setup otel"):
        tracing.switch(on=True)


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/audio/speech/batch", "/v1/audio/voices"])
@pytest.mark.parametrize(
    ("type", "begun"),
    [
        ("application/json", '{"input": "'),
        (
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Disposition: form-data; name=input\r\n\r\n",
        ),
    ],
)
def test_a_client_that_leaves_while_it_sends_is_no_fault_of_ours(
    server: RunningServer, client: httpx.Client, path: str, type: str, begun: str
) -> None:
    def booked() -> dict[str, float]:
        found = counted(client, "antiphon_http_requests_total")
        of_path = f'method="POST",route="{path}",status='
        return {labels[len(of_path) :]: n for labels, n in found.items() if of_path in labels}

    before = booked()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {type}\r\nContent-Length: 99\r\n"
        connection.sendall(f"{head}\r\n{begun}".encode())
    wait_until(lambda: booked() != before)
    (status,) = {key for key, number in booked().items() if number != before.get(key)}
    assert status == '"499"'
