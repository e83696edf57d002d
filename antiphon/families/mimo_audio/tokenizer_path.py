"""Location of a checkpoint's audio tokenizer, which is a separate repository."""

from pathlib import Path
from typing import Final

from antiphon.errors import ModelLoadError

TOKENIZER_NAME: Final = "MiMo-Audio-Tokenizer"


def tokenizer_path(path: Path) -> Path:
    """Return the directory of the audio tokenizer that belongs to a checkpoint.

    The checkpoint's directory, its parent and the hub's cache around it are searched.

    Raises:
        ModelLoadError: the tokenizer is in none of them; the message explains how to get it.
    """
    if (found := found_tokenizer(path)) is not None:
        return found
    inside, beside, *_ = _places(path)
    raise ModelLoadError(
        f"{path}: MiMo-Audio needs its audio tokenizer, which is a repository of its own:"
        f" XiaomiMiMo/{TOKENIZER_NAME}. Put it, or a link to it, into {inside} or {beside};"
        " in the cache of the hub it is found where it was downloaded."
    )


def found_tokenizer(path: Path) -> Path | None:
    """Return the same as `tokenizer_path`, but ``None`` if it is missing: text needs none."""
    return next((each for each in _places(path) if (each / "config.json").is_file()), None)


def _places(path: Path) -> list[Path]:
    places = [path / TOKENIZER_NAME, path.parent / TOKENIZER_NAME]
    if path.parent.name == "snapshots":
        cache = path.parent.parent.parent
        places += sorted((cache / f"models--XiaomiMiMo--{TOKENIZER_NAME}/snapshots").glob("*"))
    return places
