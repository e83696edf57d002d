"""Cuts, stalls and half-closed connections: nothing stays behind, nothing cut looks complete."""

import itertools
import json
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests import faulty
from tests.chaos.proxy import Faults, proxy
from tests.decoding import events
from tests.servers import RunningServer, wait_until
from tests.sockets import connected

PATH = "/v1/audio/speech"
THREE = "3 chunks, then stop"
ENDLESS = "1000000 chunks, then stop"
HEAD_BYTES = 300
FORMATS = ("pcm", "wav", "mp3", "opus", "aac", "flac")
DELIVERIES: list[dict[str, Any]] = [{}, {"stream": False}, {"stream_format": "sse"}]

pytestmark = pytest.mark.usefixtures("nothing_left")
_seeds = itertools.count(5_000_000)


def body(text: str, format: str = "pcm", **more: Any) -> dict[str, Any]:
    return {"input": text, "response_format": format, "seed": next(_seeds), **more}


@pytest.mark.parametrize("delivery", DELIVERIES, ids=["raw", "whole", "events"])
@pytest.mark.parametrize("format", ["pcm", "wav", "mp3"])
def test_what_is_cut_never_looks_complete(
    faulty_server: RunningServer, delivery: dict[str, Any], format: str
) -> None:
    sent = {**body(THREE, format), **delivery}
    whole = Faults()
    with proxy(faulty_server.port, whole) as port:
        complete = httpx.post(f"http://127.0.0.1:{port}{PATH}", json=sent)
        assert complete.status_code == 200
    num_bytes = whole.num_passed
    for cut in {1, 20, HEAD_BYTES, num_bytes // 2, num_bytes - 6, num_bytes - 1}:
        faults = Faults(cut_after_bytes=cut)
        with proxy(faulty_server.port, faults) as port, pytest.raises(httpx.TransportError):
            httpx.post(f"http://127.0.0.1:{port}{PATH}", json=sent)
        assert faults.num_passed == cut


def test_a_cut_stream_of_events_has_no_end(faulty_server: RunningServer) -> None:
    sent = body(ENDLESS, stream_format="sse")
    received: list[str] = []
    with (
        proxy(faulty_server.port, Faults(cut_after_bytes=200_000)) as port,
        httpx.stream("POST", f"http://127.0.0.1:{port}{PATH}", json=sent) as response,
        pytest.raises(httpx.TransportError),
    ):
        received.extend(response.iter_text())
    text = "".join(received).rpartition("\n\n")[0]
    assert {each["type"] for each in events(text)} == {"speech.audio.delta"}


def test_whoever_stalls_and_leaves_has_stopped_the_model(faulty_server: RunningServer) -> None:
    sent = body(ENDLESS)
    faults = Faults()
    with proxy(faulty_server.port, faults) as port:
        with httpx.stream("POST", f"http://127.0.0.1:{port}{PATH}", json=sent) as response:
            next(response.iter_raw())
            faults.is_stalled.set()
            httpx.post(faulty_server.base_url + PATH, json=body("40 chunks, then stop"))
            before = faulty.PULLED[sent["seed"]]
            httpx.post(faulty_server.base_url + PATH, json=body("40 chunks, then stop"))
            assert faulty.PULLED[sent["seed"]] <= before + 20, "nobody reads, so little is made"
            assert before < 500
        faults.is_stalled.clear()


def test_a_stall_that_ends_costs_no_sample(faulty_server: RunningServer) -> None:
    sent = body("60 chunks, then stop")
    alone = httpx.post(faulty_server.base_url + PATH, json=sent).content
    faults = Faults()
    with proxy(faulty_server.port, faults) as port:
        url = f"http://127.0.0.1:{port}{PATH}"
        with httpx.stream("POST", url, json=sent) as response:
            pieces = response.iter_raw(1000)
            received = next(pieces)
            faults.is_stalled.set()
            httpx.post(faulty_server.base_url + PATH, json=body("40 chunks, then stop"))
            faults.is_stalled.clear()
            received += b"".join(pieces)
    assert received == alone


@pytest.mark.parametrize("text", [THREE, ENDLESS])
def test_a_client_that_says_no_more_is_heard_or_gone(
    faulty_server: RunningServer, text: str
) -> None:
    """Half a connection may be taken for none, but then the answer must not look complete."""
    sent = body(text)
    with proxy(faulty_server.port, Faults(half_closes=True)) as port:
        try:
            answer = httpx.post(f"http://127.0.0.1:{port}{PATH}", json=sent, timeout=10)
        except httpx.TransportError:
            return
    assert len(answer.content) == 3 * faulty.CHUNK_SAMPLES * 2


def request_bytes(text: str) -> bytes:
    content = json.dumps(body(text)).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


@pytest.mark.parametrize("num_sent", [0, 1, 30, 100, -20, -1, None])
@pytest.mark.parametrize("resets", [False, True])
def test_a_client_may_leave_at_any_byte_of_its_request(
    faulty_server: RunningServer, num_sent: int | None, resets: bool
) -> None:
    with socket.create_connection(("127.0.0.1", faulty_server.port)) as connection:
        connection.sendall(request_bytes(ENDLESS)[:num_sent])
        if num_sent is None:
            wait_until(lambda: faulty_server.num_open == 1)
        if resets:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, *bytes(7)]))


SPEECH_SOCKET = "/v1/audio/speech/stream"
CONFIG = {"response_format": "pcm", "stream_audio": True}


@pytest.mark.parametrize("phase", ["greeting", "configured", "text", "done", "audio"])
@pytest.mark.parametrize("resets", [False, True])
def test_a_websocket_may_be_left_in_any_phase(
    faulty_server: RunningServer, phase: str, resets: bool
) -> None:
    with connected(faulty_server, SPEECH_SOCKET) as talk:
        steps: dict[str, Callable[[], object]] = {
            "configured": lambda: talk.send("session.config", **CONFIG),
            "text": lambda: talk.send("input.text", text=ENDLESS),
            "done": lambda: talk.send("input.done"),
            "audio": lambda: talk.until(lambda each: isinstance(each, bytes)),
        }
        for name, step in steps.items():
            if phase == "greeting":
                break
            step()
            if name == phase:
                break
        if resets:
            raw = talk.connection.socket
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, *bytes(3), *bytes(4)]))
            raw.shutdown(socket.SHUT_RDWR)


def test_a_websocket_that_is_cut_says_nothing_of_an_end(faulty_server: RunningServer) -> None:
    faults = Faults(cut_after_bytes=200_000)
    with proxy(faulty_server.port, faults) as port:
        through = RunningServer("", port, faulty_server.app, faulty_server.loop, 0)
        with connected(through, SPEECH_SOCKET) as talk:
            talk.send("session.config", **CONFIG)
            talk.send("input.text", text=ENDLESS)
            talk.send("input.done")
            received = talk.rest()
            with pytest.raises(ConnectionClosed):
                talk.receive()
    ends = [each for each in received if not isinstance(each, bytes)]
    assert "audio.done" not in [each["type"] for each in ends]


@pytest.mark.parametrize("ending", ["engine error", "bug"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "num_chunks",
    [0, 4, pytest.param(1, marks=pytest.mark.slow)],  # more of the same
)
def test_a_model_that_fails_gives_no_audio_that_looks_complete(
    faulty_server: RunningServer, format: str, num_chunks: int, ending: str
) -> None:
    text = f"{num_chunks} chunks, then {ending}"
    for delivery in DELIVERIES:
        sent = {**body(text, format), **delivery}
        try:
            answer = httpx.post(faulty_server.base_url + PATH, json=sent)
        except httpx.RemoteProtocolError:
            assert num_chunks, "before the first audio there is a status to tell it"
            continue
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/json"
