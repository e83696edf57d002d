"""``antiphon data``: backs up what a server keeps, restores it, and finds damage."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from antiphon.storage.checksums import DataPlaces

data = typer.Typer(no_args_is_help=True, help="Back up voices, consents and jobs, or restore them.")

_DataDir = Annotated[
    Path | None,
    typer.Option(help="The data folder.", show_default="the setting"),
]


@data.command()
def backup(
    file: Annotated[Path, typer.Argument(help="A file that is not there yet.")],
    data_dir: _DataDir = None,
) -> None:
    """Copy all that is kept into one file; servers may go on meanwhile."""
    from antiphon.storage.backup import back_up

    counts = back_up(_places(data_dir), file)
    typer.echo(f"{file}: {counts.num_recordings} recordings, {counts.num_results} files of jobs")


@data.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file that 'backup' has made.")],
    data_dir: _DataDir = None,
    unverified: Annotated[
        bool, typer.Option(help="Accept a backup of an earlier version, which has no checksums.")
    ] = False,
) -> None:
    """Make a data folder of a backup; the folder must be empty, and no server may use it."""
    from antiphon.storage import backup as backups

    counts = backups.restore(_places(data_dir), file, unverified=unverified)
    typer.echo(f"Restored {counts.num_recordings} recordings, {counts.num_results} files of jobs")


@data.command()
def verify(data_dir: _DataDir = None) -> None:
    """Read all that is kept and list what is damaged or missing; servers may go on meanwhile."""
    from antiphon.storage.checksums import find_damage

    damage = [*find_damage(_places(data_dir))]
    for each in damage:
        typer.echo(each)
    if damage:
        raise typer.Exit(1)
    typer.echo("No damage was found.")


def _places(data_dir: Path | None) -> "DataPlaces":
    from antiphon.config.sources import load_settings
    from antiphon.pipeline.jobs.runner import job_media
    from antiphon.storage.blobs import BlobStore
    from antiphon.storage.checksums import DataPlaces

    settings = load_settings({"data.dir": data_dir})
    folder = settings.data.folder
    return DataPlaces(
        folder,
        BlobStore(settings.data.blobs_url or folder / "blobs"),
        job_media(settings),
    )
