"""WebSockets that answer oddly count as what they are."""

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from websockets.asyncio.server import ServerConnection, serve

from antiphon_bench.adapters import adapter
from antiphon_bench.load import Target
from antiphon_bench.record import Outcome, Record
from antiphon_bench.text_socket import TextStreamClient
from tests.bench.odd_server import DURATION_S, SAMPLES, odd_server

DONE = json.dumps({"type": "session.done"})
AUDIO = json.dumps({"type": "audio", "audio": base64.b64encode(SAMPLES).decode()})
ERROR = json.dumps({"type": "error", "error": {"message": "No voice is left."}})
FAST = json.dumps({"type": "audio.start", "sample_rate": 48_000})
NO_RATE = json.dumps({"type": "audio.start", "sample_rate": "fast"})
HANG = "hang"


def record_of(*messages: str | bytes) -> Record:
    """Return what became of a request that is answered with these, after which it is closed."""

    async def answer(socket: ServerConnection) -> None:
        await socket.recv()
        for each in messages:
            if each == HANG:
                await socket.wait_closed()
            else:
                await socket.send(each)

    return asyncio.run(_spoken(answer, timeout_s=0.4 if HANG in messages else 60.0))


async def _spoken(
    answer: Callable[[ServerConnection], Awaitable[None]], timeout_s: float
) -> Record:
    async with serve(answer, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        text_stream = adapter("antiphon").text_stream
        assert text_stream is not None
        target = Target(host="127.0.0.1", port=port, text_stream=text_stream, timeout_s=timeout_s)
        return await TextStreamClient(target).speak(0, "So it goes.", time.monotonic())


def test_bytes_and_events_count() -> None:
    for messages, duration_s in (
        ((SAMPLES, DONE), DURATION_S),
        ((SAMPLES[:333], SAMPLES[333:], DONE), DURATION_S),
        ((AUDIO, DONE), DURATION_S),
        ((FAST, AUDIO, DONE), DURATION_S / 2),
    ):
        found = record_of(*messages)
        assert (found.outcome, found.message) == ("ok", "")
        assert found.audio_s == pytest.approx(duration_s)


@pytest.mark.parametrize(
    ("messages", "outcome", "told"),
    [
        ((DONE,), "invalid", "no audio"),
        ((SAMPLES,), "broken", "closed the connection"),
        ((SAMPLES, b"\1", DONE), "broken", "within a sample"),
        ((AUDIO, ERROR), "failed", "No voice is left."),
        (("so {", DONE), "invalid", "no JSON"),
        (("[1]", DONE), "invalid", "no object"),
        ((AUDIO.replace('": "', '": "*'), DONE), "invalid", "no base64"),
        ((NO_RATE, AUDIO, DONE), "invalid", "no sample rate"),
        ((AUDIO, HANG), "timeout", "0.4 s"),
    ],
)
def test_what_is_wrong_counts_as_what_it_is(
    messages: tuple[str | bytes, ...], outcome: Outcome, told: str
) -> None:
    found = record_of(*messages)
    assert found.outcome == outcome
    assert told in found.message


def test_a_server_without_sockets_is_told() -> None:
    text_stream = adapter("antiphon").text_stream
    with odd_server() as server:
        port = int(server.base_url.rpartition(":")[2])
        target = Target(host="127.0.0.1", port=port, text_stream=text_stream)
        for path, outcome in (("/good/x", "invalid"), ("/latin_1_error/x", "failed")):
            client = TextStreamClient(replace(target, path=path))
            found = asyncio.run(client.speak(0, "So.", time.monotonic()))
            assert found.outcome == outcome
            assert "There is no WebSocket" in found.message
