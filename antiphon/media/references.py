"""Loads what a request refers to: inside the request, on the web, or on our disk.

data:audio/wav;base64,...     always
https://example.com/a.wav     if the operator allows addresses (``allow_urls``)
file:///voices/a.wav          if it is inside the operator's directory (``allowed_media_path``)
/voices/a.wav                 the same
"""

import os
import ssl
import stat
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

import pybase64

from antiphon.concurrency import Workers
from antiphon.config import ReferenceSettings
from antiphon.errors import InvalidRequestError
from antiphon.media.addresses import ReferenceUse, Resolve, resolve_host
from antiphon.media.fetch import Fetcher

_NUM_THREADS = 2


def image_use(param: str, max_bytes: int) -> ReferenceUse:
    """Return the use of an image that a request's field refers to; decoding it comes later."""
    return ReferenceUse(
        title="reference image",
        param=param,
        accept="image/*, application/octet-stream",
        max_bytes=max_bytes,
    )


class ReferenceLoader:
    """Turns references into bytes; what the bytes are is for the decoder to find out."""

    def __init__(
        self,
        settings: ReferenceSettings,
        *,
        resolve: Resolve = resolve_host,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Prepare to load; `resolve` and `ssl_context` are those of `Fetcher`."""
        self._settings = settings
        self._workers = Workers("references", _NUM_THREADS)
        self._fetcher: Fetcher | None = None
        if settings.allow_urls:
            self._fetcher = Fetcher(settings, resolve=resolve, ssl_context=ssl_context)

    async def load(self, reference: str | bytes, use: ReferenceUse) -> bytes:
        """Return the bytes that a reference stands for, at most ``max_bytes`` of them.

        Args:
            reference: a data:, http(s): or file: address; or the bytes, such as an upload's.

        Raises:
            InvalidRequestError: it may not be loaded, or cannot be, or is too large.
        """
        if isinstance(reference, bytes):
            return _sized(reference, use)
        if is_inline(reference):
            return await self._workers.run(inline_content, reference, use)
        scheme = _scheme(reference)
        if scheme in ("http", "https"):
            if self._fetcher is None:
                raise _refusal(use, f"{_NO_URLS}; {_DATA_URI}")
            return await self._fetcher.fetch(reference, use)
        if scheme == "file" or os.path.isabs(reference):
            return await self._workers.run(_from_file, reference, self._settings, use)
        raise _refusal(
            use, "it must be a data: URI, an http(s) URL, a file: URI or an absolute path"
        )

    def close(self) -> None:
        """Refuse further calls."""
        self._workers.close()


def is_inline(reference: str | bytes) -> bool:
    """Whether a reference holds all that it stands for: then `inline_content` returns it."""
    return isinstance(reference, bytes) or _scheme(reference) == "data"


def inline_content(reference: str | bytes, use: ReferenceUse) -> bytes:
    """Return the bytes of a reference that is inline; computes, up to a millisecond for 1 MB.

    Raises:
        InvalidRequestError: it is no valid data: address, or too large.
    """
    if isinstance(reference, bytes):
        return _sized(reference, use)
    return _from_data_uri(reference, use)


def _scheme(reference: str) -> str:
    return reference[:8].partition(":")[0].lower()


_NO_URLS = "this server fetches no URLs (references.allow_urls)"
_NO_FILES = "this server reads no file: URIs and no paths (references.allowed_media_path)"
_DATA_URI = "send it as a data: URI"


def _refusal(use: ReferenceUse, reason: str) -> InvalidRequestError:
    return use.error(f"Could not load {use.title}: {reason}.")


def _from_data_uri(uri: str, use: ReferenceUse) -> bytes:
    header, comma, content = uri[len("data:") :].partition(",")
    if not comma:
        raise _refusal(use, "its data: URI has no comma before the data")
    if not header.lower().rstrip().endswith(";base64"):
        if len(content) - 2 * content.count("%") > use.max_bytes:
            raise use.too_large()
        return _sized(unquote_to_bytes(content.encode("utf-8", "replace")), use)
    if "%" in content:
        content = unquote_to_bytes(content.encode("utf-8", "replace")).decode("ascii", "replace")
    content = "".join(content.split()).rstrip("=")
    if len(content) * 3 // 4 > use.max_bytes:
        raise use.too_large()
    try:
        return pybase64.b64decode(content + "=" * (-len(content) % 4), validate=True)
    except ValueError as error:
        raise _refusal(use, "its data: URI is not valid base64") from error


def _from_file(uri: str, settings: ReferenceSettings, use: ReferenceUse) -> bytes:
    """Read a file below the allowed directory.

    A path that leads out is refused, existing or not, so that nothing outside is revealed.
    """
    if settings.allowed_media_path is None:
        raise _refusal(use, f"{_NO_FILES}; {_DATA_URI}")
    try:
        parts = urlsplit("" if os.path.isabs(uri) else uri)
        named = os.fsdecode(unquote_to_bytes(parts.path)) if parts.scheme else uri
        # Links are followed here; what is opened below is a path without any.
        path = Path(os.path.realpath(named))
    except ValueError as error:
        raise _refusal(use, "its file: URI is not valid") from error
    if parts.netloc not in ("", "localhost") or not path.is_relative_to(
        os.path.realpath(settings.allowed_media_path)
    ):
        raise _refusal(use, "its path leads out of the directory that is allowed")
    try:
        return _sized(_read(path, use.max_bytes + 1), use)
    except OSError as error:
        raise _refusal(use, "its path names no file that can be read") from error


def _read(path: Path, max_bytes: int) -> bytes:
    """Read the beginning of a plain file; never waits for the other end of a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(path)
        return file.read(max_bytes)


def _sized(data: bytes, use: ReferenceUse) -> bytes:
    if len(data) > use.max_bytes:
        raise use.too_large()
    return data
