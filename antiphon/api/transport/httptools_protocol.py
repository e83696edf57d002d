"""uvicorn's HTTP on httptools, which passes over offers of protocols that are not spoken here."""

from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from antiphon.api.transport.connection import Connection
from antiphon.api.transport.http_protocol import WatchedHttp
from antiphon.api.transport.trailers import WithTrailers

MAX_HEADERS = 128
MAX_BODY_PIECE_BYTES = 256 * 1024
"""Of a body, read ahead and fed at once: they are only copied, not parsed."""
_OF_UPGRADES = (b"upgrade", b"http2-settings")


class Parser:
    """Reads requests; an offer to speak another protocol than WebSocket is passed over."""

    def __init__(self, protocol: "HttptoolsProtocol") -> None:
        self._protocol = protocol
        self._renew()

    def _renew(self) -> None:
        self._parser = httptools.HttpRequestParser(self._protocol)
        # What comes after a last request is not read, which is no reason not to answer it.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.get_method = self._parser.get_method
        self.get_http_version = self._parser.get_http_version
        self.should_upgrade = self._parser.should_upgrade
        self.should_keep_alive = self._parser.should_keep_alive

    def feed_data(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if not self._protocol.is_passed_over:
                raise
            head = self._protocol.head_without_upgrade(self.get_method())
            self._renew()
            self.feed_data(head + data[upgrade.args[0] :])


class HttptoolsProtocol(WatchedHttp, WithTrailers, HttpToolsProtocol):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.parser = Parser(self)  # type: ignore[assignment] # all of it that is used
        self._num_body_bytes_left = 0  # of a body whose length was declared

    @property
    def num_body_bytes(self) -> int:  # type: ignore[override] # others have a constant
        return min(max(0, self._num_body_bytes_left), MAX_BODY_PIECE_BYTES)

    @property
    def is_passed_over(self) -> bool:
        """Whether the request offers a protocol that is not spoken here (CONNECT is none)."""
        return (
            self.parser.should_upgrade()
            and self._get_upgrade() is not None
            and not self._should_upgrade()
        )

    def head_without_upgrade(self, method: bytes) -> bytes:
        lines = [method + b" " + self.url + b" HTTP/1.1"]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [each.strip() for each in value.split(b",")]
                value = b", ".join(each for each in tokens if each.lower() not in _OF_UPGRADES)
            if name not in _OF_UPGRADES:
                lines.append(name + b": " + value)
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADERS:
            raise ValueError("too many headers")  # the parser's error; see below
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._num_body_bytes_left -= len(body)
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request: 431 for too many headers, else 400."""
        connection = cast(Connection, self.transport)
        if self.headers is not None and len(self.headers) >= MAX_HEADERS:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            connection.refuse(status, f"At most {MAX_HEADERS} headers are allowed.")
        else:
            connection.refuse(HTTPStatus.BAD_REQUEST, msg)

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        self.parser = None  # type: ignore[assignment] # as when the connection is lost

    def on_headers_complete(self) -> None:
        if not self.is_passed_over:
            super().on_headers_complete()
        if not self.parser.should_upgrade():  # else what follows is no body
            self._num_body_bytes_left = _declared_length(self.headers)

    def on_message_complete(self) -> None:
        self._num_body_bytes_left = 0
        if self.is_passed_over:
            return
        super().on_message_complete()
        if self.cycle is not None and not self.parser.should_upgrade():
            self.cycle.more_body = False  # uvicorn leaves it so once it has answered


def _declared_length(headers: list[tuple[bytes, bytes]]) -> int:
    """Return the length of a body; 0: it has none, or is chunked."""
    return next((int(value) for name, value in headers if name == b"content-length"), 0)
