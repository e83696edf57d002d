"""Logs that carry the request's id, one line an event, for people or for machines.

A log never holds what a client has sent: neither texts, recordings nor keys. Messages of faults
inside a request may quote them, so their tracebacks end with the type of the exception; libraries
that log whole messages are kept above their debug level. A line has at most 8 KiB.
"""

import contextvars
import json
import logging
import re
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from antiphon.errors import redacted
from antiphon.telemetry.log_stream import LogStream

MAX_LINE_BYTES = 8192
MAX_FAILURES_A_MINUTE = 50
"""Lines about failed requests with the same status and code, or the same type of exception."""

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")
audio_format: contextvars.ContextVar[str] = contextvars.ContextVar("audio_format", default="-")
"""What the request's audio is encoded as; ``-`` while that is not known."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MAX_MESSAGE_CHARACTERS = 1024
_MAX_FIELD_CHARACTERS = 128
_MAX_EXCEPTION_CHARACTERS = 4096
_MAX_LINKS = 4  # exceptions of a chain, the latest ones
_OMITTED = " ... "
_NO_REQUEST = "-"

# At debug level these log bodies, WebSocket messages or headers, keys among them.
TALKATIVE = (
    *("uvicorn", "websockets", "python_multipart", "multipart", "httpcore", "httpcore2", "httpx"),
)


class _ContextFilter(logging.Filter):
    """Adds the request's id, and the name of the process if it is one of several."""

    def __init__(self, process: str | None) -> None:
        super().__init__()
        self._process = process

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        record.process_name = self._process
        return True


class _FailureFilter(logging.Filter):
    """Drops the lines of one ``failure`` beyond `MAX_FAILURES_A_MINUTE`, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self._minutes: dict[str, tuple[int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        failure = vars(record).get("failure")
        if failure is None:
            return True
        now = int(record.created // 60)
        minute, num_lines = self._minutes.get(failure, (now, 0))
        num_dropped = max(0, num_lines - MAX_FAILURES_A_MINUTE)
        if minute != now:
            minute, num_lines = now, 0
            if num_dropped:
                record.msg = f"{record.getMessage()} ({num_dropped} others like it were not logged)"
                record.args = ()
        self._minutes[failure] = minute, num_lines + 1
        return num_lines < MAX_FAILURES_A_MINUTE


class _RedactingFormatter(logging.Formatter):
    """Logs an exception's traceback; its message only outside of requests, no secret of a URL."""

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info and not record.exc_text:
            in_request = vars(record).get("request_id", _NO_REQUEST) != _NO_REQUEST
            record.exc_text = _described(record.exc_info[1], hides_messages=in_request)
        return redacted(self.formatted(record))

    def formatted(self, record: logging.LogRecord) -> str:
        """Return the line; the exception's text is there by now."""
        return super().format(record)


class TextFormatter(_RedactingFormatter):
    """Lines for people; what a client has sent cannot begin a new one."""

    def __init__(self, *, names_process: bool = False) -> None:
        process = "%(process_name)s " if names_process else ""
        super().__init__(
            f"%(asctime)s %(levelname)-7s {process}%(request_id)s %(name)s: %(message)s"
        )

    def formatted(self, record: logging.LogRecord) -> str:
        return "\n".join(_cut_bytes(line) for line in super().formatted(record).split("\n"))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        line = super().formatMessage(record)
        return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], _cut(line, MAX_LINE_BYTES))


class JsonFormatter(_RedactingFormatter):
    """One JSON object a line; what a record brings as ``fields`` becomes members of it."""

    def formatted(self, record: logging.LogRecord) -> str:
        fields = vars(record).get("fields", {})
        process = vars(record).get("process_name")
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **({"process": process} if process else {}),
            "request_id": vars(record).get("request_id", _NO_REQUEST),
            "message": _cut(record.getMessage(), _MAX_MESSAGE_CHARACTERS),
            **{
                name: _cut(value, _MAX_FIELD_CHARACTERS) if isinstance(value, str) else value
                for name, value in fields.items()
            },
        }
        if record.exc_text:
            members["exception"] = _cut(record.exc_text, _MAX_EXCEPTION_CHARACTERS)
        line = json.dumps(members, ensure_ascii=False, default=str)
        if len(line.encode(errors="replace")) > MAX_LINE_BYTES:  # few characters can be many bytes
            members = {name: members[name] for name in ("time", "level", "logger", "request_id")}
            line = json.dumps({**members, "message": "an event too long to be logged"})
        return _SURROGATE.sub("\ufffd", line)


def configure_logging(level: str, format: str = "text", process: str | None = None) -> None:
    """Log to stderr, each event with the id of the request that it belongs to; never waits for it.

    ``process`` is the name of this one, if several write to the same stream.
    """
    handler = logging.StreamHandler(LogStream(sys.stderr))
    handler.addFilter(_FailureFilter())
    handler.addFilter(_ContextFilter(process))
    is_json, names_process = format == "json", process is not None
    handler.setFormatter(JsonFormatter() if is_json else TextFormatter(names_process=names_process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
    logging.getLogger("python_multipart").setLevel(logging.ERROR)


@contextmanager
def request_scope(id: str) -> Generator[None, None, None]:
    """Name the request in all logs inside the block."""
    token = request_id.set(id)
    try:
        yield
    finally:
        request_id.reset(token)


def _described(error: BaseException | None, *, hides_messages: bool) -> str:
    """Return a traceback; the lines of code in it are ours and no secret."""
    if error is None:
        return ""
    if not hides_messages:
        return "".join(traceback.format_exception(error)).rstrip("\n")
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(links) < _MAX_LINKS:
        links.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    parts = []
    for each in reversed(links):
        frames = "".join(traceback.format_tb(each.__traceback__))
        kind = type(each)
        parts.append(
            f"Traceback (most recent call last):\n{frames}{kind.__module__}.{kind.__name__}"
        )
    return "\n\n".join(parts)


def _cut(text: str, max_characters: int) -> str:
    """Leave out the middle of a text that is too long."""
    if len(text) <= max_characters:
        return text
    half = (max_characters - len(_OMITTED)) // 2
    return text[:half] + _OMITTED + text[-half:]


def _cut_bytes(line: str) -> str:
    """Cut a line for people to `MAX_LINE_BYTES`, whatever its characters take."""
    raw = line.encode(errors="backslashreplace")
    return raw[:MAX_LINE_BYTES].decode(errors="ignore") if len(raw) > MAX_LINE_BYTES else line
