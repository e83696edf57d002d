"""Values that a shell completes: models, voices, formats, cards.

The user waits for each, so nothing here loads a model or imports PyTorch, and what takes longer
than a moment is read once and kept in the user's cache folder.
"""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import typer

from antiphon.errors import AntiphonError
from antiphon.formats import AudioFormat

_PATIENCE_S = 1.0
_CONFIGURATIONS = ("config.json", "model_index.json")
Complete = Callable[[typer.Context, str], list[str]]


def among(*values: str) -> Complete:
    """Return a completion of fixed values."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return _starting(incomplete, values)

    return complete


formats = among(*AudioFormat)


def models(context: typer.Context, incomplete: str) -> list[str]:
    """Complete what can be served: built in, installed, in the hub's cache, and folders."""
    from antiphon.families.installed import installed_models

    names = [*_kept("built in", (), _built_in), *sorted(installed_models().names), *_downloaded()]
    return [*_starting(incomplete, names), *checkpoints(context, incomplete)]


def models_anywhere(context: typer.Context, incomplete: str) -> list[str]:
    """Complete models, those of a running server if ``--url`` precedes them in the command."""
    if url := context.params.get("url"):
        return _starting(incomplete, _ids(context, url, "/v1/models"))
    return models(context, incomplete)


def checkpoints(context: typer.Context, incomplete: str) -> list[str]:
    """Complete checkpoints, in the directory that has been typed."""
    typed, slash, start = incomplete.rpartition("/")
    typed += slash
    try:
        names = sorted(os.listdir(Path(typed or ".").expanduser()))
    except OSError:
        return []
    found = [typed + name for name in _starting(start, names)]
    return [each for each in found if _is_checkpoint(Path(each).expanduser())]


def voices(context: typer.Context, incomplete: str) -> list[str]:
    """Complete voices of the model, or of the server, that precedes them in the command."""
    model = context.params.get("model")
    if url := context.params.get("url"):
        query = f"?model={quote(model)}" if model else ""
        return _starting(incomplete, _ids(context, url, f"/v1/audio/voices{query}"))
    model = model or os.environ.get("ANTIPHON_MODEL_SOURCE") or ""
    path = Path(model).expanduser()
    if "/" in model and not path.is_dir():
        snapshot = _snapshot(model)
        if snapshot is None:
            return []  # reading them would download it
        model, path = str(snapshot), snapshot
    files = (path, path / "config.json", path / "voices") if path.is_dir() and model else ()
    name = f"voices of {path.resolve() if files else model}"
    return _starting(incomplete, _kept(name, files, partial(_voices_of, model)))


def families(context: typer.Context, incomplete: str) -> list[str]:
    """Complete names of families."""
    return _starting(incomplete, _kept("families", (), _families))


def made_tasks(context: typer.Context, incomplete: str) -> list[str]:
    """Complete tasks of checkpoints that the family which precedes them makes."""
    family = context.params.get("family")
    found = _kept(f"made tasks of {family}", (), partial(_made_tasks, family))
    return _starting(incomplete, found)


def cards(context: typer.Context, incomplete: str) -> list[str]:
    """Complete names of GPUs, as words that need no quotes."""
    from antiphon.placement.cards import CARDS

    names = [card.name.lower().replace(" ", "-") for card in CARDS]
    return _starting(incomplete, ["cpu", *names])


def _starting(incomplete: str, values: Iterable[str]) -> list[str]:
    return [each for each in values if each.startswith(incomplete)]


def _is_checkpoint(path: Path) -> bool:
    return path.suffix == ".gguf" or any((path / name).is_file() for name in _CONFIGURATIONS)


def _ids(context: typer.Context, url: str, path: str) -> list[str]:
    """Return the ids of a list of a running server; none if it does not answer."""
    from antiphon.cli.remote import RemoteServer

    server = RemoteServer(url, context.params.get("api_key"), timeout_s=_PATIENCE_S)
    try:
        return [each["id"] for each in server.answer("GET", path)["data"]]
    except (AntiphonError, KeyError, TypeError):
        return []


def _built_in() -> list[str]:
    from antiphon.families.registry import families

    return [family.name for family in families() if not family.needs_checkpoint]


def _families() -> list[str]:
    from antiphon.families.registry import FAMILIES

    return [*FAMILIES]


def _made_tasks(name: str | None) -> list[str]:
    from antiphon.families.measured import measured_family
    from antiphon.families.registry import family

    found = family(name) if name else measured_family(None)[0]
    return [*found.checkpoint_maker.resolve().tasks] if found.checkpoint_maker else []


def _voices_of(model: str) -> list[str]:
    from antiphon.cli.own_voices import own_voices

    return [voice.id for voice in own_voices(model or None)]


def _hub_cache() -> Path:
    """Return the folder of the hub's package, which takes long to import."""
    if chosen := os.environ.get("HF_HUB_CACHE"):
        return Path(chosen).expanduser()
    home = os.environ.get("HF_HOME") or str(_user_cache() / "huggingface")
    return Path(home).expanduser() / "hub"


def _downloaded() -> list[str]:
    """Return the ids of checkpoints in the hub's cache."""
    found = filter(_is_checkpoint, _hub_cache().glob("models--*--*/snapshots/*"))
    names = {path.parents[1].name.removeprefix("models--") for path in found}
    return sorted(name.replace("--", "/", 1) for name in names)


def _snapshot(model: str) -> Path | None:
    """Return the directory of a checkpoint in the hub's cache."""
    id, _, revision = model.partition("@")
    folder = _hub_cache() / f"models--{id.replace('/', '--')}"
    try:
        commit = (folder / "refs" / (revision or "main")).read_text(encoding="utf-8").strip()
    except OSError:
        return None
    path = folder / "snapshots" / commit
    return path if path.is_dir() else None


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def _kept(name: str, files: Iterable[Path], read: Callable[[], list[str]]) -> list[str]:
    """Return a list that was read before, unless a file that it depends on has changed since."""
    code = Path(__file__).parents[1] / "families" / "registry.py"
    times = [each.stat().st_mtime_ns for each in (code, *files) if each.exists()]
    file = _user_cache() / "antiphon" / f"{sha256(name.encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValueError):
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["times"] == times:
            return [str(value) for value in kept["values"]]
    try:
        found = read()
    except AntiphonError:
        return []
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"times": times, "values": found}), encoding="utf-8")
    return found
