"""The page, ``/docs`` and the guides, served from memory: each file has its type and ETag."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.web.guides import START, guide_page, guides

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
        "img-src 'self' blob:",
        "media-src blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
# Swagger UI sets styles on its elements and has its icons in its stylesheet.
DOCS_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "media-src blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
COMMON_HEADERS = {
    # A browser asks every time and gets 304, so that an upgraded server shows its own page.
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
    "X-Frame-Options": "DENY",
}
PAGE, ICON = "index.html", "icon.svg"
_SWAGGER_UI = ("swagger-ui-bundle.js", "swagger-ui.css")


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


def page_routes() -> list[Route]:
    """Return the routes of the page (``/``, ``/static/*``, an icon), ``/docs`` and ``/guides``.

    ``/docs`` shows the API's description with Swagger UI, from this server alone.
    """
    web = files("antiphon.web")
    page = _folder(web.joinpath("static"), CONTENT_SECURITY_POLICY)
    docs = _folder(web.joinpath("docs_page"), DOCS_SECURITY_POLICY)
    library = files("fastapi_swagger").joinpath("resources")
    docs |= {name: _asset(library.joinpath(name), DOCS_SECURITY_POLICY) for name in _SWAGGER_UI}
    return [
        _file_route("/", page[PAGE]),
        _file_route("/favicon.ico", page[ICON]),  # browsers ask for it unbidden
        _folder_route("/static/{name}", page),
        _file_route("/docs", docs.pop(PAGE)),
        _folder_route("/docs/{name}", docs),
        Route("/guides/{name:path}", _guide, methods=["GET"]),
        Route("/guides", _to_guides, methods=["GET"]),
    ]


async def _to_guides(request: Request) -> Response:
    """Redirect to where links of the guides begin, also behind a proxy that adds a prefix."""
    return Response(status_code=307, headers={"Location": "guides/"})


def _guide(request: Request) -> Response:
    """Answer with a guide; it is made in a worker thread, as this is no coroutine."""
    name = request.path_params["name"] or START
    if name not in guides():
        raise HTTPException(404, f"There is no guide '{name}'.")
    return _made("html", guide_page(name), CONTENT_SECURITY_POLICY).respond(request)


def _file_route(path: str, asset: Asset) -> Route:
    async def answer(request: Request) -> Response:
        return asset.respond(request)

    return Route(path, answer, methods=["GET"])


def _folder_route(path: str, assets: Mapping[str, Asset]) -> Route:
    async def answer(request: Request) -> Response:
        asset = assets.get(request.path_params["name"])
        if asset is None:
            raise HTTPException(404, f"There is no file '{request.url.path}'.")
        return asset.respond(request)

    return Route(path, answer, methods=["GET"])


def _folder(folder: Traversable, policy: str) -> dict[str, Asset]:
    """Read every file of a folder whose type is known, by name."""
    known = (each for each in folder.iterdir() if each.name.rpartition(".")[2] in CONTENT_TYPES)
    return {each.name: _asset(each, policy) for each in known}


def _asset(file: Traversable, policy: str) -> Asset:
    return _made(file.name.rpartition(".")[2], file.read_bytes(), policy)


def _made(extension: str, body: bytes, policy: str) -> Asset:
    headers = {
        **COMMON_HEADERS,
        "Content-Type": CONTENT_TYPES[extension],
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    }
    if extension == "html":
        headers["Content-Security-Policy"] = policy
    return Asset(body, headers)
