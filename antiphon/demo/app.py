"""The demonstration as an ASGI application: Gradio's page, our player, and the way to a server."""

import tomllib
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
_SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")  # of no other server
_STATIC = files("antiphon.demo").joinpath("static")


def make_app(
    upstream: DemoUpstream, models: Sequence[ServedVoice], chats: Sequence[str] = ()
) -> FastAPI:
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
        app,
        build(models, chats),
        path="/",
        head=_HEAD,
        css=_STATIC.joinpath("demo.css").read_text(encoding="utf-8"),
        theme=_theme(),
        favicon_path=str(files("antiphon.web").joinpath("static", "icon.svg")),
        ssr_mode=False,
        footer_links=[],
    )
    return app


def _theme() -> gr.themes.Base:
    theme = gr.themes.Base(primary_hue="teal", neutral_hue="gray", font=_SANS, radius_size="lg")
    colours = tomllib.loads(_STATIC.joinpath("colours.toml").read_text(encoding="utf-8"))
    given = {name: light for name, (light, *_) in colours.items()}
    given |= {f"{name}_dark": dark for name, (_, *both) in colours.items() for dark in both}
    return theme.set(**given)


def _player_file(request: Request) -> Response:
    """Serve a module of the player: our own, or one that the server's page has too."""
    name = request.path_params["name"]
    for package, folder in (("antiphon.demo", "static"), ("antiphon.web", "static")):
        file = files(package).joinpath(folder, name)
        if name.endswith(".js") and file.is_file():
            return Response(file.read_bytes(), media_type="text/javascript; charset=utf-8")
    raise HTTPException(404, f"There is no file '{request.url.path}'.")
