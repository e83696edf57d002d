"""``antiphon demo``: a page in Gradio to try a server with."""

from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli import completion
from antiphon.cli.flags import flag
from antiphon.errors import SettingsError, how_to_install

if TYPE_CHECKING:
    from antiphon.demo.proxy import DemoUpstream


@dataclass(frozen=True, slots=True)
class DemoFlags:
    """The flags of ``antiphon demo``."""

    model: Annotated[
        str | None,
        typer.Argument(
            help="Starts a server of our own for this model; none: that of --url.",
            autocompletion=completion.models,
        ),
    ] = None
    url: Annotated[str, flag("A server that is running.", True)] = "http://127.0.0.1:8000"
    api_key: Annotated[str | None, flag("Of that server; browsers do not see it.")] = None
    host: Annotated[str, flag("Where the page is; 0.0.0.0: on every address.", True)] = "127.0.0.1"
    port: Annotated[int, flag("Port of the page.", True, min=0, max=65535)] = 7860


def demo(flags: DemoFlags) -> None:
    """Show a page for voices, voice design and cloning, which plays speech while it is made."""
    if find_spec("gradio") is None:
        raise SettingsError(f"The demonstration needs Gradio: {how_to_install('demo')}")
    from antiphon.cli.own_server import own_server
    from antiphon.demo.proxy import DemoUpstream

    with ExitStack() as stack:
        url = flags.url.rstrip("/").removesuffix("/v1")
        if flags.model is not None:
            typer.echo(f"Starting a server for {flags.model} …")
            url = stack.enter_context(own_server([flags.model]))
        _serve(DemoUpstream(url, flags.api_key), flags)


def _serve(upstream: "DemoUpstream", flags: DemoFlags) -> None:
    import uvicorn

    from antiphon.demo.app import make_app
    from antiphon.demo.speech_models import chat_models, speech_models

    app = make_app(upstream, speech_models(upstream), chat_models(upstream))
    typer.echo(
        f"Antiphon's demonstration: http://{flags.host}:{flags.port} (speech: {upstream.url})"
    )
    uvicorn.run(app, host=flags.host, port=flags.port, log_level="warning")
