"""Serves the page at ``/docs``, which shows the API's description, from this server alone."""

from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from antiphon.web.routes import Asset, load_asset

# Swagger UI sets styles on its elements and has its icons in its stylesheet.
CONTENT_SECURITY_POLICY = "; ".join(
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

_SWAGGER_UI = ("swagger-ui-bundle.js", "swagger-ui.css")


def mount_docs(app: FastAPI) -> None:
    """Add ``/docs`` and what it needs to ``app``; they stay out of the API's schema."""
    own = files("antiphon.web").joinpath("docs_page")
    library = files("fastapi_swagger").joinpath("resources")
    page = _loaded(own, "index.html")
    assets = {"start.js": _loaded(own, "start.js")}
    assets |= {name: _loaded(library, name) for name in _SWAGGER_UI}

    async def docs(request: Request) -> Response:
        return page.respond(request)

    async def asset(request: Request) -> Response:
        found = assets.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, f"There is no file '{request.url.path}'.")
        return found.respond(request)

    app.add_route("/docs", docs, methods=["GET"], include_in_schema=False)
    app.add_route("/docs/{name}", asset, methods=["GET"], include_in_schema=False)


def _loaded(folder: Traversable, name: str) -> Asset:
    content = folder.joinpath(name).read_bytes()
    return load_asset(content, name.rpartition(".")[2], CONTENT_SECURITY_POLICY)
