"""Web pages that may call the server, and the host names by which it may be called.

A page of a stranger can make a browser send requests to the user's own network, and can give its
own name any address (DNS rebinding). Where a key is asked for it gains nothing by that. Where none
is, the server answers only to names that no stranger can own, and to pages that have such names.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.api.middleware.connection_limits import PROBES, makes_work
from antiphon.config import ServerSettings

ANY = "*"
_OWN_SUFFIXES = (".localhost", ".local", ".lan", ".internal", ".home.arpa", ".svc")


@dataclass(frozen=True, slots=True)
class Reach:
    """The policy.

    Attributes:
        hosts: names by which the server may be called besides those that no stranger can own.
        origins: Origins of pages that may call; none: see `admits`.
    """

    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    asks_for_keys: bool

    @classmethod
    def of(cls, server: ServerSettings, *, asks_for_keys: bool) -> "Reach":
        hosts = tuple(each.lower() for each in server.allowed_hosts)
        if not hosts and asks_for_keys:
            hosts = (ANY,)
        return cls((*hosts, server.host.lower()), tuple(server.cors_origins), asks_for_keys)

    @property
    def is_open_to_all_pages(self) -> bool:
        return ANY in self.origins or (not self.origins and self.asks_for_keys)

    def answers_to(self, host: str) -> bool:
        """Whether the server may be called so; ``host`` is a header's value."""
        name = _name(f"//{host}")
        known = any(fnmatchcase(name, each) for each in self.hosts)
        return known or _is_address(name) or _is_own_name(name)

    def admits(self, origin: str) -> bool:
        """Whether a page of this origin may call.

        Those that are named may; if none is, those of the user's own network, and all where a key
        is asked for.
        """
        if self.is_open_to_all_pages or origin in self.origins:
            return True
        if self.origins or not _is_page(origin):
            return False
        name = _name(origin)
        return _is_own_name(name) or (_is_address(name) and not ip_address(name).is_global)


class ReachMiddleware:
    """Refuses requests to names that are not the server's, and what pages of others ask for.

    Probes are answered by any name, and reading is left to CORS: browsers send all else anyway.
    """

    def __init__(self, app: ASGIApp, reach: Reach) -> None:
        self._app = app
        self._reach = reach

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        host, origin = headers.get("Host"), _origin(scope, headers)
        if host and scope["path"] not in PROBES and not self._reach.answers_to(host):
            raise HTTPException(
                403,
                f"This server is not called {ascii(host)[:100]}: name it in"
                " server.allowed_hosts, or ask for keys",
            )
        is_socket = scope["type"] == "websocket"
        if origin is not None and makes_work(scope):
            is_own = _is_page(origin) and urlsplit(origin).netloc == host
            if not is_own and not self._reach.admits(origin):
                what = "connect" if is_socket else "call"
                raise HTTPException(403, f"Pages of {ascii(origin)[:100]} may not {what}")
        await self._app(scope, receive, send)


def _origin(scope: Scope, headers: Headers) -> str | None:
    """Return the origin of the page behind a request; ``None``: it is no other site's.

    An element such as ``<audio>`` sends no origin with GET, but where its request comes from.
    """
    given = headers.get("Origin")
    if given is not None or scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return given
    site = headers.get("Sec-Fetch-Site")
    if site not in (None, "cross-site"):
        return None
    if (page := headers.get("Referer")) is None:
        return None if site is None else "null"
    return "/".join(page.split("/", 3)[:3])


class PageMiddleware(CORSMiddleware):
    """CORS: which pages may read answers."""

    def __init__(self, app: ASGIApp, reach: Reach, expose_headers: tuple[str, ...]) -> None:
        super().__init__(
            app,
            allow_origins=[ANY] if reach.is_open_to_all_pages else [],
            allow_methods=[ANY],
            allow_headers=[ANY],
            expose_headers=expose_headers,
        )
        self._reach = reach

    def is_allowed_origin(self, origin: str) -> bool:
        return self._reach.admits(origin)


def _is_page(origin: str) -> bool:
    """Whether an origin is a web page's, and not an extension's, a file's or opaque (``null``)."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _name(url: str) -> str:
    """Return a URL's host in lower case, ``""`` if there is none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_own_name(name: str) -> bool:
    """Whether only the user's own machine or network can have given this name."""
    return (
        bool(name) and not _is_address(name) and ("." not in name or name.endswith(_OWN_SUFFIXES))
    )
