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
#spoken-list { display: grid; gap: 1rem; margin: 0; padding: 0; list-style: none; }
#spoken-list li { display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: center; }
#spoken-list a { color: var(--link-text-color); }
#spoken-list p { flex-basis: 100%; margin: 0; }
#spoken-list audio { flex: 1; min-width: 14rem; height: 2.5rem; }
.dark { --color-accent: #5ad1c2; }
footer { display: none !important; }
"""
_SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")  # of no other server
_COLOURS = {
    "body_background_fill": ("#f5f6f6", "#0e1213"),
    "block_background_fill": ("#ffffff", "#161b1d"),
    "input_background_fill": ("#ffffff", "#1e2527"),
    "border_color_primary": ("#d9dddd", "#2b3437"),
    "body_text_color": ("#181d1f", "#e6eaea"),
    "button_primary_background_fill": ("#0f766e", "#5ad1c2"),
    "button_primary_background_fill_hover": ("#0b5c56", "#83e3d7"),
    "button_primary_text_color": ("#ffffff", "#06201d"),
    "color_accent": ("#0f766e", None),
    "checkbox_background_color_selected": ("#0f766e", "#0f766e"),
    "input_border_width": ("1px", "1px"),
    "link_text_color": ("#0b5c56", "#5ad1c2"),
    "slider_color": ("#0f766e", "#5ad1c2"),
    "body_text_color_subdued": ("#566064", "#9ba7a9"),
    "block_label_text_color": ("#566064", "#9ba7a9"),
    "block_title_text_color": ("#566064", "#9ba7a9"),
}
"""Those of the server's page, `antiphon/web/static/style.css`: light, dark."""


def make_app(
    upstream: DemoUpstream, models: Sequence[ServedVoice], chats: Sequence[str] = ()
) -> FastAPI:
    """Return the application."""
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
        css=_STYLE,
        theme=_theme(),
        favicon_path=str(files("antiphon.web").joinpath("static", "icon.svg")),
        ssr_mode=False,
        footer_links=[],
    )
    return app


def _theme() -> gr.themes.Base:
    theme = gr.themes.Base(primary_hue="teal", neutral_hue="gray", font=_SANS, radius_size="lg")
    given = {name: light for name, (light, _) in _COLOURS.items()}
    given |= {f"{name}_dark": dark for name, (_, dark) in _COLOURS.items() if dark is not None}
    return theme.set(**given)


def _player_file(request: Request) -> Response:
    """Serve a module of the player: our own, or one that the server's page has too."""
    name = request.path_params["name"]
    for package, folder in (("antiphon.demo", "static"), ("antiphon.web", "static")):
        file = files(package).joinpath(folder, name)
        if name.endswith(".js") and file.is_file():
            return Response(file.read_bytes(), media_type="text/javascript; charset=utf-8")
    raise HTTPException(404, f"There is no file '{request.url.path}'.")
