"""Serves the page from memory: a handful of files, read once, each with its type and ETag."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

# Spelt out, since Python's own table depends on the machine (Windows may call .js text/plain).
CONTENT_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
COMMON_HEADERS = {
    # A browser asks every time and gets 304, so that an upgraded server shows its own page.
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Frame-Options": "DENY",
}
PAGE, ICON = "index.html", "icon.svg"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the page, and the headers that it is sent with."""

    body: bytes
    headers: dict[str, str]

    def respond(self, request: Request) -> Response:
        """Answer with the file, or with 304 when the browser already has this version."""
        known = request.headers.get("if-none-match", "")
        tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
        if self.headers["ETag"] in tags or "*" in tags:
            headers = {k: v for k, v in self.headers.items() if k != "Content-Type"}
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=self.headers)


def mount(app: FastAPI) -> None:
    """Add ``/``, ``/static/*`` and an icon to ``app``; they stay out of the API's schema."""
    assets = _load_assets()

    async def page(request: Request) -> Response:
        return assets[PAGE].respond(request)

    async def icon(request: Request) -> Response:  # browsers ask for it unbidden
        return assets[ICON].respond(request)

    async def static(request: Request) -> Response:
        asset = assets.get(request.path_params["name"])
        if asset is None:
            raise HTTPException(404, f"There is no file '{request.url.path}'.")
        return asset.respond(request)

    routes: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/": page,
        "/favicon.ico": icon,
        "/static/{name}": static,
    }
    for path, endpoint in routes.items():
        app.add_route(path, endpoint, methods=["GET"], include_in_schema=False)


def _load_assets() -> dict[str, Asset]:
    """Read every file of ``static/`` whose type is known, by name."""
    assets = {}
    for entry in files("antiphon.web").joinpath("static").iterdir():
        extension = entry.name.rpartition(".")[2]
        if extension in CONTENT_TYPES:
            assets[entry.name] = load_asset(entry.read_bytes(), extension)
    return assets


def load_asset(body: bytes, extension: str, policy: str = CONTENT_SECURITY_POLICY) -> Asset:
    """Return a file as it is sent; ``policy`` goes with pages."""
    headers = {
        **COMMON_HEADERS,
        "Content-Type": CONTENT_TYPES[extension],
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    }
    if extension == "html":
        headers["Content-Security-Policy"] = policy
    return Asset(body, headers)
