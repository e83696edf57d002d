"""``antiphon voices``: what a model can speak with, and the voices of one's own."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli import completion
from antiphon.cli.flags import ApiKey, AsJson
from antiphon.cli.tables import show_table

if TYPE_CHECKING:
    from antiphon.cli.voice_backends import FolderBackend, ServerBackend

voices = typer.Typer(invoke_without_command=True)

_Url = Annotated[
    str | None,
    typer.Option(help="A server's address, as http://127.0.0.1:8000; default: the data folder."),
]
_DataDir = Annotated[
    Path | None,
    typer.Option(help="The folder of uploaded voices.", show_default="the setting"),
]


@voices.callback()
def _own(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            help="A built-in model, a checkpoint's directory, or its ORG/NAME on the hub.",
            autocompletion=completion.models,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List a model's own voices, the first one is the default; or manage uploaded ones."""
    if context.invoked_subcommand is not None:
        return
    from antiphon.cli.own_voices import own_voices

    found = own_voices(model)
    rows = [[each.id, each.name, each.language, each.gender, each.description] for each in found]
    columns = ("Voice", "Name", "Language", "Gender", "Description")
    show_table([asdict(voice) for voice in found], columns, rows, as_json)


@voices.command("list")
def list_uploaded(
    url: _Url = None,
    api_key: ApiKey = None,
    data_dir: _DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the uploaded voices of a data folder or of a server."""
    with _backend(url, api_key, data_dir) as backend:
        found = backend.voices()
    rows = [
        [each["name"], each["id"], each["mime_type"], each["file_size"], each.get("ref_text")]
        for each in found
    ]
    show_table(found, ("Name", "Id", "Type", "Bytes", "Words"), rows, as_json)


@voices.command()
def add(
    recording: Annotated[Path, typer.Argument(help="An audio file, 1 to 30 seconds long.")],
    name: Annotated[str, typer.Option(help="What the voice will be called.")],
    ref_text: Annotated[
        str | None, typer.Option(help="Transcript of the recording; it makes the voice better.")
    ] = None,
    consent: Annotated[
        str | None, typer.Option(help="What the speaker agreed to, or the id of a consent.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="For people.")] = None,
    url: _Url = None,
    api_key: ApiKey = None,
    data_dir: _DataDir = None,
) -> None:
    """Upload a voice to a server, or put it into a data folder.

    Servers of the same folder can speak with it at once, if their model clones voices.
    """
    texts = {"ref_text": ref_text, "consent": consent, "speaker_description": description}
    given = {key: text for key, text in texts.items() if text is not None}
    with _backend(url, api_key, data_dir) as backend:
        voice = backend.add(recording, {"name": name, **given})
    typer.echo(f"{voice['name']}: {voice['id']}")


@voices.command()
def delete(
    voice: Annotated[str, typer.Argument(help="The voice's name or id.")],
    url: _Url = None,
    api_key: ApiKey = None,
    data_dir: _DataDir = None,
) -> None:
    """Delete an uploaded voice, and all that was made of it."""
    with _backend(url, api_key, data_dir) as backend:
        typer.echo(f"Deleted {backend.delete(voice)}")


@contextmanager
def _backend(
    url: str | None, api_key: str | None, data_dir: Path | None
) -> Generator["FolderBackend | ServerBackend", None, None]:
    from antiphon.cli.voice_backends import FolderBackend, ServerBackend
    from antiphon.config.sources import load_settings

    if url is not None:
        yield ServerBackend(url, api_key)
        return
    folder = FolderBackend(load_settings({"data.dir": data_dir}))
    try:
        yield folder
    finally:
        folder.close()
