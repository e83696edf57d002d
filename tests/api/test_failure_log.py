"""A client cannot fill the log: failures of one kind have a bounded number of lines a minute."""

import io
import logging
import re
from collections.abc import Callable, Generator

import httpx
import pytest
from websockets.sync.client import connect

from antiphon.api.errors import record_failure
from antiphon.errors import MemoryFullError
from antiphon.telemetry import logs
from antiphon.telemetry.logs import MAX_FAILURES_A_MINUTE, configure_logging
from antiphon.telemetry.metrics import Metrics
from tests.servers import DEADLINE_S, RunningServer

NUM_REFUSED = 1000
MAX_LINES = 2 * MAX_FAILURES_A_MINUTE + 10
"""A new minute may begin meanwhile; the rest is for what is logged once."""


@pytest.fixture
def log() -> Generator[io.StringIO, None, None]:
    """Log as `antiphon serve` does, and put all back afterwards."""
    root, written = logging.getLogger(), io.StringIO()
    loggers = [root, *map(logging.getLogger, [*logs.TALKATIVE, "python_multipart"])]
    handlers, levels = root.handlers[:], [each.level for each in loggers]
    configure_logging("info")
    handler = root.handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(written)
    try:
        yield written
    finally:
        root.handlers[:] = handlers
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


@pytest.mark.parametrize("path", ["/v1/audio/speech/stream", "/v1/realtime", "/v1/speak"])
def test_refused_messages_have_few_lines(
    server: RunningServer, log: io.StringIO, path: str
) -> None:
    with connect(f"ws://127.0.0.1:{server.port}{path}", max_size=None, proxy=None) as connection:
        for _ in range(NUM_REFUSED):
            connection.send("[]")
        for _ in range(NUM_REFUSED):
            connection.recv(timeout=DEADLINE_S)
    assert 0 < len(log.getvalue().splitlines()) <= MAX_LINES


def test_refused_requests_have_few_lines(server: RunningServer, log: io.StringIO) -> None:
    with httpx.Client(base_url=server.base_url) as client:
        for _ in range(NUM_REFUSED):
            assert client.post("/v1/audio/speech", json={}).status_code == 400
    assert 0 < len(log.getvalue().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("fault", [MemoryFullError, ZeroDivisionError])
def test_the_next_minute_says_how_many_lines_were_left_out(
    log: io.StringIO, fault: Callable[[str], Exception]
) -> None:
    now_s, metrics = 0.0, Metrics()
    make = logging.getLogRecordFactory()

    def record(*args: object, **more: object) -> logging.LogRecord:
        made = make(*args, **more)
        made.created = now_s
        return made

    logging.setLogRecordFactory(record)
    try:
        for _ in range(NUM_REFUSED):
            record_failure(fault("x"), metrics, has_started=True)
        record_failure(KeyError("x"), metrics, has_started=True)  # of another kind
        now_s = 60.0
        record_failure(fault("x"), metrics, has_started=True)
    finally:
        logging.setLogRecordFactory(make)
    lines = re.findall(" ERROR .*", log.getvalue())
    assert len(lines) == MAX_FAILURES_A_MINUTE + 2
    assert f"({NUM_REFUSED - MAX_FAILURES_A_MINUTE} others like it were not logged)" in lines[-1]
