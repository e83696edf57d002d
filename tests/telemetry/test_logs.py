"""Logs: one event a line whatever a client sends, and a JSON object where machines read."""

import json
import logging

import pytest

from antiphon.telemetry.log_stream import LogStream
from antiphon.telemetry.logs import MAX_LINE_BYTES, JsonFormatter, TextFormatter, request_scope
from antiphon.telemetry.logs import configure_logging as configure
from tests.servers import DEADLINE_S


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "level", logging.getLogger().level)


def logged(capsys: pytest.CaptureFixture[str]) -> str:
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    assert isinstance(handler.stream, LogStream)
    assert handler.stream.drain(DEADLINE_S)
    return capsys.readouterr().err


@pytest.mark.parametrize("told", ["a\nINFO forged", "a\r\nb", "a\x1b[31mb", "a\u2028b", "\x85"])
def test_nothing_that_a_client_sends_begins_a_line(
    root: None, capsys: pytest.CaptureFixture[str], told: str
) -> None:
    configure("info", "text")
    logging.getLogger("test").info("the voice '%s' does not exist", told)
    (line,) = logged(capsys).splitlines()
    assert "\x1b" not in line


def test_json_has_a_line_for_each_event(root: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    logger = logging.getLogger("test")
    with request_scope("req-1"):
        logger.info("two\nlines", extra={"fields": {"status": 200}})
    try:
        raise ValueError("broken\non purpose")
    except ValueError:
        logger.exception("it failed")
    logger.debug("not shown")
    first, second = [json.loads(line) for line in logged(capsys).splitlines()]
    assert (first["message"], first["request_id"], first["status"]) == ("two\nlines", "req-1", 200)
    assert first["level"] == "info"
    assert second["request_id"] == "-"
    assert "ValueError: broken" in second["exception"]


def test_tracebacks_keep_their_lines_where_people_read() -> None:
    record = logging.LogRecord("test", logging.ERROR, "", 0, "it failed", (), None)
    record.request_id = "-"
    record.exc_text = "Traceback\n  here"
    assert TextFormatter().format(record).endswith("it failed\nTraceback\n  here")
    assert json.loads(JsonFormatter().format(record))["message"] == "it failed"


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_line_is_never_long(root: None, capsys: pytest.CaptureFixture[str], format: str) -> None:
    configure("info", format)
    logger = logging.getLogger("test")
    for told in ("a" * 2**20, "\U0001f3b5" * 2**20, "\x01" * 2**20, "\ud800" * 2**20):
        logger.info("%s", told, extra={"fields": {"one": told, "two": told}})
    try:
        raise ValueError("b" * 2**20)
    except ValueError:
        logger.exception("it failed")
    lines = logged(capsys).splitlines()
    assert len(lines) >= 5
    assert max(len(line.encode(errors="surrogatepass")) for line in lines) <= MAX_LINE_BYTES


def test_inside_a_request_a_fault_is_told_by_its_place(
    root: None, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("info", "text")
    said = "what a client said"
    with request_scope("req-1"):
        try:
            try:
                int(said)
            except ValueError as error:
                raise RuntimeError(said) from error
        except RuntimeError:
            logging.getLogger("test").exception("it failed")
    told = logged(capsys)
    assert said not in told
    assert "builtins.ValueError" in told
    assert "builtins.RuntimeError" in told
    assert "int(said)" in told
