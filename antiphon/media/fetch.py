"""Fetches a file from an address in a request, without trusting either of them.

Built on httpcore rather than on a whole client: it has the seam at which connections are checked
as public API, and knows no cookies, passwords, proxies, environment or content encodings that
would have to be turned off.
"""

import asyncio
import re
import ssl
import string
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

import httpcore2

from antiphon.config import ReferenceSettings
from antiphon.errors import InvalidRequestError
from antiphon.media.addresses import CheckedNetwork, ReferenceUse, Resolve, resolve_host

_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")  # a name, or an IPv6 address
_FAULTS = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException)


class Fetcher:
    """Gets the bytes behind http(s) URLs; keeps nothing from one fetch to the next."""

    def __init__(
        self,
        settings: ReferenceSettings,
        *,
        resolve: Resolve = resolve_host,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Read the settings and the system's certificates.

        Args:
            ssl_context: whom to trust; default: whom the system trusts.
        """
        self._settings = settings
        self._resolve = resolve
        self._ssl_context = ssl_context or httpcore2.default_ssl_context()

    async def fetch(self, url: str, use: ReferenceUse) -> bytes:
        """Return the body, after redirects.

        Raises:
            InvalidRequestError: the URL is wrong or may not be fetched, or there was no answer,
                none in time, a wrong one or too large a one.
        """
        fetch = _Fetch(use, CheckedNetwork(self._settings, self._resolve, use), self._ssl_context)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                for _ in range(1 + _MAX_REDIRECTS):
                    body, location = await fetch.get(_parsed(url, use))
                    if location is None:
                        return body
                    url = urljoin(url, location)
        except TimeoutError as error:
            limit = f"{self._settings.timeout_s:g}s"
            raise _refusal(use, f"it took longer than {limit}") from error
        except ValueError as error:  # of a redirect that is no URL
            reason = "its server redirected to something that is not a URL"
            raise _refusal(use, reason) from error
        raise _refusal(use, f"more than {_MAX_REDIRECTS} redirects")


@dataclass(frozen=True, slots=True)
class _Fetch:
    use: ReferenceUse
    network: CheckedNetwork
    ssl_context: ssl.SSLContext

    async def get(self, url: httpcore2.URL) -> tuple[bytes, str | None]:
        """Return a body, or where to look for it."""
        host = url.host.decode()
        headers = {
            "Host": _authority(url),
            "Accept": self.use.accept,
            "Accept-Encoding": "identity",
            "User-Agent": "antiphon",
        }
        try:
            async with (
                httpcore2.AsyncConnectionPool(
                    ssl_context=self.ssl_context, network_backend=self.network
                ) as pool,
                pool.stream("GET", url, headers=list(headers.items())) as response,
            ):
                fields = {name.lower(): value for name, value in response.headers}
                if response.status in _REDIRECTS and b"location" in fields:
                    return b"", fields[b"location"].decode("utf-8", "replace")
                if response.status != 200:
                    reason = f"'{host}' answered with status {response.status}"
                    raise _refusal(self.use, reason)
                return await self._body(response, int(fields.get(b"content-length", 0))), None
        except _FAULTS as error:
            raise _refusal(self.use, f"no complete answer came from '{host}'") from error

    async def _body(self, response: httpcore2.Response, declared_bytes: int) -> bytes:
        body = bytearray()
        if declared_bytes <= self.use.max_bytes:
            async for part in response.aiter_stream():
                body += part
                if len(body) > self.use.max_bytes:
                    break
            else:
                return bytes(body)
        raise self.use.too_large()


def _refusal(use: ReferenceUse, reason: str) -> InvalidRequestError:
    return use.error(f"Could not fetch {use.title}: {reason}.")


def _parsed(url: str, use: ReferenceUse) -> httpcore2.URL:
    """Take a URL apart, once: what is checked is what is used; raises InvalidRequestError."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("ascii" if url.isascii() else "idna").decode()
        target = quote(parts.path or "/", safe=string.punctuation)
        query = quote(parts.query, safe=string.punctuation)
        port = parts.port
    except ValueError as error:
        raise _refusal(use, "its URL is not valid") from error
    if parts.scheme not in ("http", "https"):
        raise _refusal(use, f"'{parts.scheme}' URLs are not supported, only http and https")
    if parts.username is not None or parts.password is not None:
        raise _refusal(use, "URLs with user names are not supported")
    if not _HOST.fullmatch(host):
        raise _refusal(use, "its URL has no valid host")
    return httpcore2.URL(
        scheme=parts.scheme,
        host=host,
        port=port,
        target=target + (f"?{query}" if query else ""),
    )


def _authority(url: httpcore2.URL) -> str:
    host = url.host.decode()
    host = f"[{host}]" if ":" in host else host
    return host if url.port is None else f"{host}:{url.port}"
