"""Logs: one event a line whatever a client sends, and a JSON object where machines read."""

import json
import logging

import pytest

from antiphon.telemetry import JsonFormatter, TextFormatter, request_scope
from antiphon.telemetry import configure_logging as configure


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the root logger back afterwards."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "level", logging.getLogger().level)


@pytest.mark.parametrize("told", ["a\nINFO forged", "a\r\nb", "a\x1b[31mb", "a\u2028b", "\x85"])
def test_nothing_that_a_client_sends_begins_a_line(
    root: None, capsys: pytest.CaptureFixture[str], told: str
) -> None:
    configure("info", "text")
    logging.getLogger("test").info("the voice '%s' does not exist", told)
    (line,) = capsys.readouterr().err.splitlines()
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
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
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
