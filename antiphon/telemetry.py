"""Logs that carry the request's id, one line an event, for people or for machines."""

import contextvars
import json
import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")
audio_format: contextvars.ContextVar[str] = contextvars.ContextVar("audio_format", default="-")
"""What the request's audio is encoded as; ``-`` while that is not known."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class _RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        return True


class TextFormatter(logging.Formatter):
    """Lines for people; what a client has sent cannot begin a new one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(request_id)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], super().formatMessage(record))


class JsonFormatter(logging.Formatter):
    """One JSON object a line; what a record brings as ``fields`` becomes members of it."""

    def format(self, record: logging.LogRecord) -> str:
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": vars(record).get("request_id", "-"),
            "message": record.getMessage(),
            **vars(record).get("fields", {}),
        }
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return json.dumps(members, ensure_ascii=False, default=str)


def configure_logging(level: str, format: str = "text") -> None:
    """Log to stderr, each event with the id of the request that it belongs to.

    Args:
        level: of the least serious event that is logged.
        format: ``text`` or ``json``.
    """
    handler = logging.StreamHandler()
    handler.addFilter(_RequestIdFilter())
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


@contextmanager
def request_scope(id: str) -> Generator[None, None, None]:
    """Name the request in all logs inside the block."""
    token = request_id.set(id)
    try:
        yield
    finally:
        request_id.reset(token)
