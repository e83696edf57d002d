"""Vocabularies and merges of byte-level BPE tokenizers."""

from pathlib import Path
from typing import Any

from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from antiphon.errors import ModelLoadError


def read_merges(file: Path) -> list[tuple[str, str]]:
    """Return the merges of a merges.txt, in order; raises ModelLoadError."""
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{file}: cannot be read: {error}") from error
    return [merge_of(file, line) for line in lines if line and not line.startswith("#version")]


def merge_of(file: Path, merge: Any) -> tuple[str, str]:
    """Return the two halves of a merge, which newer files write as a list."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2:
        raise ModelLoadError(f"{file}: {merge!r} is not a merge of two tokens")
    return parts[0], parts[1]


def byte_level_model(file: Path, vocab: dict[str, int], merges: list[tuple[str, str]]) -> BPE:
    """Return a BPE of bytes; raises ModelLoadError, which names ``file``, if a token is missing."""
    if missing := set(ByteLevel.alphabet()) - vocab.keys():
        raise ModelLoadError(f"{file}: {len(missing)} bytes have no token")
    for left, right in merges:
        if left not in vocab or right not in vocab or left + right not in vocab:
            raise ModelLoadError(f"{file}: a merge of '{left}' and '{right}' has no token")
    return BPE(vocab, merges)
