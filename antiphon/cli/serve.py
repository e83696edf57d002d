"""``antiphon serve``: an HTTP server for one model or several."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """The flags of ``antiphon serve``; ``None`` leaves a setting to the environment or the file."""

    model: Annotated[
        str | None,
        typer.Argument(
            help="A built-in model, a checkpoint's directory, or its ORG/NAME on the hub.",
            show_default=False,
        ),
    ] = None
    more: Annotated[
        list[str] | None,
        typer.Option(help="A further model, SOURCE or NAME=SOURCE; repeatable."),
    ] = None
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None
    port: Annotated[
        int | None, typer.Option(help="Port; 0 picks a free one.", show_default="8000")
    ] = None
    name: Annotated[
        str | None,
        typer.Option(help="Served name of the model.", show_default="last part of the model"),
    ] = None
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:N or auto.", show_default="auto")
    ] = None
    dtype: Annotated[
        str | None, typer.Option(help="auto, bfloat16 or float32.", show_default="auto")
    ] = None
    max_slots: Annotated[
        int | None, typer.Option(help="Requests that are worked on at once.", show_default="64")
    ] = None
    cache_gib: Annotated[
        float | None,
        typer.Option(help="Memory for keys and values, GiB.", show_default="what slots need"),
    ] = None
    deterministic: Annotated[
        bool | None,
        typer.Option(
            "--deterministic", help="The same audio in any company, to the byte, on a GPU too."
        ),
    ] = None
    api_key: Annotated[
        list[str] | None,
        typer.Option(help="Accept this key; repeatable.", show_default="no key is asked"),
    ] = None
    api_keys_file: Annotated[
        Path | None,
        typer.Option(help="File of keys or hashes, one a line.", show_default="none"),
    ] = None
    allow_no_key: Annotated[
        bool | None,
        typer.Option("--allow-no-key", help="Serve other machines without asking for a key."),
    ] = None
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name by which clients may call; repeatable.",
            show_default="any with keys, else those of one's own network",
        ),
    ] = None
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Origin of pages that may call, * for all; repeatable.",
            show_default="all with keys, else those of one's own network",
        ),
    ] = None
    max_input_characters: Annotated[
        int | None, typer.Option(help="Longest text of one request.", show_default="100000")
    ] = None
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of uploaded voices.", show_default="the user's data folder"),
    ] = None
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error.", show_default="info")
    ] = None
    log_format: Annotated[str | None, typer.Option(help="text or json.", show_default="text")] = (
        None
    )
    config: Annotated[
        Path | None, typer.Option(help="A TOML file of settings.", show_default=False)
    ] = None

    def as_settings(self) -> dict[str, Any]:
        """Return what was given, by the names of the settings."""
        return {
            "model.source": self.model,
            "model.name": self.name,
            "models.more": self.more or None,
            "model.device": self.device,
            "model.dtype": self.dtype,
            "model.max_slots": self.max_slots,
            "model.cache_gib": self.cache_gib,
            "model.deterministic": self.deterministic,
            "speech.max_input_characters": self.max_input_characters,
            "server.host": self.host,
            "server.port": self.port,
            "server.api_keys": self.api_key or None,
            "server.allow_no_key": self.allow_no_key,
            "server.allowed_hosts": self.allowed_host or None,
            "server.cors_origins": self.cors_origin or None,
            "server.api_keys_file": self.api_keys_file,
            "server.log_level": self.log_level,
            "server.log_format": self.log_format,
            "data.dir": self.data_dir,
        }


def serve(flags: ServeFlags) -> None:
    """Serve a model behind an OpenAI-compatible API, with a page to try it.

    All settings can also come from the environment or a file: see `antiphon config`.
    """
    from antiphon.config_sources import load_settings, set_library_defaults
    from antiphon.models.registry import resolve

    set_library_defaults()
    settings = load_settings(flags.as_settings(), file=flags.config)
    for model in settings.served():
        resolve(model.source)  # a wrong name is told before anything heavy is imported

    from antiphon.cli.uvicorn_server import run

    run(settings)
