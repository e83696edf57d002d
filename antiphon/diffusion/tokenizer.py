"""Loader of tokenizers in diffusers' layout, without torch, for prompters."""

from pathlib import Path
from typing import Any

from antiphon.diffusion.loading_faults import read_folder


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a component's folder; raises ModelLoadError."""
    from transformers import AutoTokenizer

    return read_folder(
        folder, lambda: AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    )
