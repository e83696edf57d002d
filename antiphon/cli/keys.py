"""``antiphon keys``: makes API keys, and the hashes that a server knows them by."""

from typing import Annotated

import typer

keys = typer.Typer(no_args_is_help=True)


@keys.callback()
def _group() -> None:
    """Make API keys."""


@keys.command()
def new() -> None:
    """Print a new key, for its owner, and its hash, for the server's settings or keys file."""
    from antiphon.api.keys import hashed, new_key

    key = new_key()
    typer.echo(f"key:  {key}")
    typer.echo(f"hash: {hashed(key)}")


@keys.command("hash")
def hash_key(
    key: Annotated[
        str, typer.Option(prompt="Key", hide_input=True, help="Asked for if it is not given.")
    ],
) -> None:
    """Print the hash of a key that there is already."""
    from antiphon.api.keys import hashed

    typer.echo(hashed(key))
