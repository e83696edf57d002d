"""What WebSockets keep is in the memory budget: of a hundred silent sessions, only so much."""

import json
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.chaos.long_messages import _item
from tests.chaos.siege import MAX_GROWTH_MIB, Besieged, besieged
from tests.servers import wait_until

MAX_MIB = 32
NUM_SESSIONS = 100
MAX_READ = 20
"""Messages of a session that are read: a refusal is among the first."""
NUM_CHARACTERS = 990_000
REFUSALS = ("overloaded", "rate_limit", "request_too_large")
SENTENCES = "Hello there. " * 7_000

Messages = Sequence[dict[str, Any]]


def update(**session: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": {"type": "realtime", **session}}


KEPT: dict[str, tuple[str, Messages]] = {
    "instructions": (
        "/v1/realtime?model=toy",
        [update(instructions="你" * NUM_CHARACTERS, output_modalities=["text"])],
    ),
    "items": (
        "/v1/realtime?model=toy",
        [{**_item("你" * (NUM_CHARACTERS // 10))} for _ in range(10)],
    ),
    "unsaid": ("/v1/realtime", [_item(SENTENCES)]),
    "responses": ("/v1/realtime", [_item(SENTENCES), {"type": "response.create"}]),
    "text": (
        "/v1/audio/speech/stream",
        [{"type": "session.config"}, {"type": "input.text", "text": SENTENCES}],
    ),
    "files": (
        "/v1/audio/speech/stream",
        [
            {"type": "session.config", "split_granularity": "sentence"},
            {"type": "input.text", "text": "Hello there. " * 900},
        ],
    ),
    "config": (
        "/v1/audio/speech/stream",
        [{"type": "session.config", "pronunciations": {f"w{n}": "b" * 190 for n in range(990)}}],
    ),
    "spoken": ("/v1/speak", [{"type": "Speak", "text": SENTENCES}]),
    "input": ("/v1/text-to-speech/default/stream-input", [{"text": SENTENCES}]),
    "contexts": (
        "/v1/text-to-speech/default/multi-stream-input",
        [{"text": SENTENCES, "context_id": str(number)} for number in range(16)],
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Besieged, None, None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("ANTIPHON_LIMITS_MAX_MEMORY_MIB", str(MAX_MIB))
        monkeypatch.setenv("ANTIPHON_LIMITS_CALLER_MEMORY_MIB", "0")
        with besieged(tmp_path_factory.mktemp("silent")) as running:
            with ExitStack() as stack:
                opened(stack, running, "text")  # a heap grows at its first siege, whatever is kept
            yield running


def reserved_mib(server: Besieged) -> float:
    return server.metrics()["antiphon_memory_reserved_bytes"] / 2**20


def resident_mib(server: Besieged) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if "VmRSS" in line)
    return int(line.split()[1]) / 1024


def is_refused(connection: ClientConnection) -> bool:
    found = False
    try:
        for _ in range(MAX_READ):
            message = connection.recv(timeout=0.05)
            found = found or any(each in str(message) for each in REFUSALS)
    except TimeoutError:
        pass
    except ConnectionClosed as closed:
        found = found or (closed.rcvd is not None and closed.rcvd.code == 1013)
    return found


def opened(stack: ExitStack, server: Besieged, name: str) -> tuple[list[ClientConnection], int]:
    """Open sessions that send what is to be kept; return them, and how many were refused."""
    path, messages = KEPT[name]
    sent = [json.dumps(each, ensure_ascii=False) for each in messages]
    connections: list[ClientConnection] = []
    num_refused = 0
    for _ in range(NUM_SESSIONS):
        url = f"ws://127.0.0.1:{server.port}{path}"
        connection = stack.enter_context(connect(url, max_size=None, proxy=None, close_timeout=0.2))
        connections.append(connection)
        for message in sent:
            connection.send(message)
        num_refused += is_refused(connection)
    return connections, num_refused


@pytest.mark.slow  # a hundred sessions that keep megabytes each
@pytest.mark.parametrize("name", KEPT)
def test_silent_sessions_keep_no_more_than_the_budget(server: Besieged, name: str) -> None:
    wait_until(lambda: reserved_mib(server) == 0)
    before_mib = resident_mib(server)
    with ExitStack() as stack:
        connections, num_refused = opened(stack, server, name)
        kept_mib, counted_mib = resident_mib(server) - before_mib, reserved_mib(server)
        assert 1 < counted_mib <= MAX_MIB
        if not num_refused and counted_mib >= MAX_MIB / 2:  # a busy server refuses late
            wait_until(lambda: any(map(is_refused, connections)))
        assert kept_mib <= counted_mib + MAX_GROWTH_MIB
    wait_until(lambda: reserved_mib(server) == 0)
    wait_until(server.is_quiet)
