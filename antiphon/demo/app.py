"""The demonstration as an ASGI application: Gradio's page, our player, and the way to a server."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files

import gradio as gr
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.demo.controls import build
from antiphon.demo.proxy import DemoUpstream, new_client, proxy_routes
from antiphon.demo.speech_models import ServedVoice

_HEAD = '<script type="module" src="player/demo.js"></script>'
_STYLE = """
#measured dl { display: flex; flex-wrap: wrap; gap: 2rem; margin: 0.5rem 0; }
#measured dt { opacity: 0.7; font-size: 0.85rem; }
#measured dd { margin: 0; font-size: 1.4rem; font-variant-numeric: tabular-nums; }
#measured-state { font-weight: 600; }
#measured[data-state="failed"] #measured-state, #measured[data-state="broken"] #measured-state {
  color: #c62828;
}
footer { display: none !important; }
"""


def make_app(upstream: DemoUpstream, models: Sequence[ServedVoice]) -> FastAPI:
    """Return the application.

    Args:
        upstream: the server that speaks.
        models: its speech models.
    """
    client = new_client()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with client:
            yield

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    app.router.routes += [
        *proxy_routes(upstream, client),
        Route("/player/{name}", _player_file, methods=["GET"]),
    ]
    gr.mount_gradio_app(
        app, build(models), path="/", head=_HEAD, css=_STYLE, ssr_mode=False, footer_links=[]
    )
    return app


def _player_file(request: Request) -> Response:
    """Serve a module of the player: our own, or one that the server's page has too."""
    name = request.path_params["name"]
    for package, folder in (("antiphon.demo", "static"), ("antiphon.web", "static")):
        file = files(package).joinpath(folder, name)
        if name.endswith(".js") and file.is_file():
            return Response(file.read_bytes(), media_type="text/javascript; charset=utf-8")
    raise HTTPException(404, f"There is no file '{request.url.path}'.")
