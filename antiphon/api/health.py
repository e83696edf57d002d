"""Whether the server lives, whether it is ready, and what it has done so far."""

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from antiphon import __version__
from antiphon.api.state import Server

router = APIRouter(tags=["health"])


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health(server: Server) -> JSONResponse:
    """Report whether the models work; if not, the server should be restarted."""
    if server.has_failed:
        return JSONResponse({"status": "unhealthy"}, 503)
    return JSONResponse({"status": "healthy"})


@router.head("/ready", include_in_schema=False)
@router.get("/ready")
async def ready(server: Server) -> JSONResponse:
    """Report whether traffic may come: models are warm, and the databases can be read."""
    if hindrances := server.hindrances:
        return JSONResponse({"status": "not ready", "reason": "; ".join(hindrances)}, 503)
    return JSONResponse({"status": "ready"})


@router.get("/v1/test")
async def test() -> dict[str, str]:
    """Answer Home Assistant's probe, which then asks for the voices."""
    return {"status": "ok"}


@router.get("/v1", include_in_schema=False)
@router.get("/v1/", include_in_schema=False)
async def index() -> dict[str, Any]:
    """Answer clients that open a connection ahead of their first request."""
    return {"object": "api", "name": "antiphon", "version": __version__}


@router.get("/metrics", response_class=Response)
async def metrics(server: Server) -> Response:
    """Give the metrics in Prometheus's text format."""
    return Response(await server.speech.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)
