"""Models that other installed distributions bring, by their names.

A distribution declares ``name = "module:DIRECTORY"`` in the entry-point group ``antiphon.models``;
``DIRECTORY`` is the path of a checkpoint.
"""

from importlib.metadata import EntryPoints, entry_points
from pathlib import Path

_GROUP = "antiphon.models"


def installed_models() -> EntryPoints:
    """Return the declared models, not yet loaded."""
    return entry_points(group=_GROUP)


def installed_checkpoint(name: str) -> Path | None:
    """Return the directory of an installed model, or ``None`` if none has this name."""
    for entry in installed_models().select(name=name):
        return Path(entry.load())
    return None
