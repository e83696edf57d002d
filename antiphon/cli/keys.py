"""``antiphon keys``: makes API keys, and the hashes that a server knows them by."""

from typing import Annotated

import typer

keys = typer.Typer(no_args_is_help=True, help="Make API keys.")


@keys.command()
def new(
    owner: Annotated[
        str | None, typer.Option(help="Whose it is: what is kept with it belongs to this name.")
    ] = None,
    admin: Annotated[
        bool, typer.Option("--admin", help="It may see and delete what belongs to others.")
    ] = False,
) -> None:
    """Print a new key, for its owner, and its hash, for the server's settings or keys file."""
    from antiphon.api.middleware.keys import KeyRing, hashed, new_key

    key = new_key()
    words = [f"owner={owner}"] if owner is not None else []
    words += ["scope=admin"] if admin else []
    line = " ".join([hashed(key), *words])
    KeyRing([line])  # refuses a wrong name
    typer.echo(f"key:  {key}")
    typer.echo(f"hash: {line}")


@keys.command("hash")
def hash_key(
    key: Annotated[
        str, typer.Option(prompt="Key", hide_input=True, help="Asked for if it is not given.")
    ],
) -> None:
    """Print the hash of a key that there is already."""
    from antiphon.api.middleware.keys import hashed

    typer.echo(hashed(key))
