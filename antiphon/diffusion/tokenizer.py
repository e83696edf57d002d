"""Loads tokenizers of checkpoints in diffusers' layout, without torch, for prompters."""

from pathlib import Path
from typing import Any

from antiphon.errors import ModelLoadError


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a component's folder, of the class that the folder names.

    Raises:
        ModelLoadError: it is not there, or broken.
    """
    from transformers import AutoTokenizer

    if not folder.is_dir():
        raise ModelLoadError(f"{folder}: there is no such directory")
    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # the library raises anything for files that are broken
        raise ModelLoadError(f"{folder}: cannot be loaded: {error}") from error
