"""``antiphon models pull``: downloads a checkpoint of the hub, after its size and licence."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.errors import ModelLoadError

_UNSTATED = "not stated"


def pull(
    model: Annotated[
        str,
        typer.Argument(
            help="A checkpoint's ORG/NAME on the hub, or ORG/NAME@REVISION.", show_default=False
        ),
    ],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Download without asking on a terminal.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show size and licence, and download nothing.")
    ] = False,
) -> None:
    """Download a checkpoint of the Hugging Face hub, after showing its size and licence.

    The hub's variables apply: HF_HOME, HF_TOKEN, HF_ENDPOINT. The exit status is 1 if no model here
    serves it.
    """
    from antiphon.families.kit.hub import ask_hub, is_hub_id
    from antiphon.families.registry import hub_patterns, resolve
    from antiphon.storage.disk_reserve import free_bytes

    if not is_hub_id(model) or Path(model).is_dir():
        what = "a directory here" if Path(model).is_dir() else "no ORG/NAME of the hub"
        raise ModelLoadError(f"'{model}' is {what}: there is nothing to download.")
    licence = _licence(ask_hub(model, "model_info"))
    files = ask_hub(
        model,
        "snapshot_download",
        allow_patterns=hub_patterns(),
        dry_run=True,
        tqdm_class=_quiet_bar(),
    )
    if not files:
        raise ModelLoadError(f"'{model}' has none of the files that a model served here needs.")
    missing = [each for each in files if each.will_download]
    missing_bytes = sum(each.file_size or 0 for each in missing)
    folder = _cache_folder()
    num_free = free_bytes(folder)
    _print(
        {
            "Model": f"{model}, commit {files[0].commit_hash[:12]}",
            "Licence": licence,
            "Size": _gigabytes(sum(each.file_size or 0 for each in files)),
            "Download": f"{len(missing)} of {len(files)} files, {_gigabytes(missing_bytes)}",
            "Folder": f"{folder}, {_gigabytes(num_free)} free",
        }
    )
    if missing_bytes > num_free:
        raise ModelLoadError(
            f"'{model}' does not fit: free {_gigabytes(missing_bytes)} of {folder}."
        )
    if dry_run:
        return
    if missing and not yes and sys.stdin.isatty():
        typer.confirm("Download it?", default=True, abort=True, err=True)
    family, path = resolve(model)
    typer.echo(f"{path}")
    typer.echo(f"It is {family.title}. Serve it: antiphon serve {model}", err=True)


def _licence(info: Any) -> str:
    """Return the licence that a model's card states, with the name and address of its own."""
    card = info.card_data
    stated = None if card is None else card.get("license")
    names = stated if isinstance(stated, list) else [stated] if stated else []
    more = [] if card is None else [card.get("license_name"), card.get("license_link")]
    gate = ["its terms must be accepted on the hub"] if info.gated else []
    found = [str(each) for each in (*names, *more) if each and each != "other"]
    return ", ".join([*(found or [_UNSTATED]), *gate])


def _cache_folder() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _quiet_bar() -> Any:
    """Return a class of progress bars that show nothing, for what takes no time."""
    from huggingface_hub.utils.tqdm import tqdm

    class QuietBar(tqdm):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **{**more, "disable": True})  # type: ignore[no-untyped-call]

    return QuietBar


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"


def _print(facts: dict[str, str]) -> None:
    for name, value in facts.items():
        typer.echo(f"{name:<10}{value}", err=True)
