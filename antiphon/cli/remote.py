"""Client of a running server, for commands with ``--url``: JSON, streams, server-sent events."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpcore2

from antiphon.errors import AntiphonError, InvalidRequestError

_NO_ANSWER = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)
_CLIENT_ERRORS = range(400, 500)


class RemoteServer:
    def __init__(self, url: str, api_key: str | None, timeout_s: float | None = None) -> None:
        """Take an address with or without ``http://`` and ``/v1``; nothing is sent yet."""
        waits = ("connect", "read", "write")
        self._extensions = {"timeout": {wait: timeout_s for wait in waits}} if timeout_s else None
        url = url if "://" in url else f"http://{url}"
        self.url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def answer(
        self, method: str, path: str, content: bytes = b"", content_type: str | None = None
    ) -> dict[str, Any]:
        """Return the object that a request is answered with; errors as of `opened`."""
        with self.opened(method, path, content, content_type) as response:
            return dict(self._parsed(response.read()))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a body as JSON without what is ``None``; return the object of the answer."""
        return self.answer("POST", path, _encoded(body), "application/json")

    @contextmanager
    def posted(
        self, path: str, body: Mapping[str, Any]
    ) -> Generator[httpcore2.Response, None, None]:
        """Do what `post` does, for an answer that is read piece by piece."""
        with self.opened("POST", path, _encoded(body), "application/json") as response:
            yield response

    def lines(self, path: str, body: Mapping[str, Any]) -> Generator[str, None, None]:
        """Send a body as JSON; yield the lines of an answer that streams, without empty ones."""
        with self.posted(path, body) as response:
            rest = b""
            for piece in response.iter_stream():
                *whole, rest = (rest + piece).split(b"\n")
                yield from (line.decode() for line in whole if line)

    @contextmanager
    def opened(
        self, method: str, path: str, content: bytes = b"", content_type: str | None = None
    ) -> Generator[httpcore2.Response, None, None]:
        """Send a request, and open the body of its answer.

        Raises:
            InvalidRequestError: the server refuses the request.
            AntiphonError: there is no answer, it breaks off, or the server failed.
        """
        headers = {**self._headers, **({"Content-Type": content_type} if content_type else {})}
        has_begun = False
        try:
            with httpcore2.stream(
                method,
                self.url + path,
                headers=list(headers.items()),
                content=content,
                extensions=self._extensions,
            ) as response:
                has_begun = True
                if response.status != 200:
                    raise self._refusal(response.status, response.read())
                yield response
        except _NO_ANSWER as error:
            what = "the connection broke" if has_begun else "does not answer"
            reason = str(error).rstrip(".")
            raise AntiphonError(f"{self.url}: {what}: {reason}.") from error

    def _refusal(self, status: int, content: bytes) -> AntiphonError:
        error = self._parsed(content).get("error")
        message = error.get("message") if isinstance(error, Mapping) else None
        kind = InvalidRequestError if status in _CLIENT_ERRORS else AntiphonError
        return kind(f"{self.url}: {message or f'status {status}'}")

    def _parsed(self, content: bytes) -> Mapping[str, Any]:
        try:
            parsed = json.loads(content)
        except ValueError:
            parsed = None
        if not isinstance(parsed, Mapping):
            raise AntiphonError(f"{self.url} is not a server of this kind.")
        return parsed


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()


def upload_content(path: Path) -> bytes:
    """Return what is in a user's file; raises InvalidRequestError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequestError(f"Cannot read {path}: {error.strerror or error}.") from error
