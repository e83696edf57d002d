"""Special token ids of a checkpoint's tokenizer, read from JSON only."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError

TOKENIZER_FILE = "tokenizer.json"
RANKS_FILE, SPECIAL_FILE = "tokenizer.tiktoken", "special_tokens.json"
"""S1's files, which replace tokenizer.json."""

IM_START, IM_END, VOICE, INTERLEAVE = "<|im_start|>", "<|im_end|>", "<|voice|>", "<|interleave|>"
_SEMANTIC = "<|semantic:{}|>"


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Special token ids of prompts and answers.

    Attributes:
        ids: id of every special token by name.
        first_semantic: id of the first semantic code; the others follow.
        num_semantic: number of semantic codes.
    """

    ids: Mapping[str, int]
    first_semantic: int
    num_semantic: int

    @property
    def end(self) -> int:
        """Id that ends speech."""
        return self.ids[IM_END]

    @property
    def largest(self) -> int:
        return max(self.ids.values())


def read_special_tokens(path: Path) -> SpecialTokens:
    """Read the special tokens in a directory's tokenizer.json or special_tokens.json.

    Raises:
        ModelLoadError: both files or a token are missing, or semantic tokens are not contiguous.
    """
    file = path / TOKENIZER_FILE
    if file.is_file():
        ids = _of_tokenizer(ConfigSection.read(file))
    elif (path / SPECIAL_FILE).is_file():
        file = path / SPECIAL_FILE
        section = ConfigSection.read(file)
        ids = {name: section.integer(name) for name in section.values}
    else:
        raise ModelLoadError(
            f"{path}: there is neither {TOKENIZER_FILE} nor {RANKS_FILE} with {SPECIAL_FILE}"
        )
    count = 0
    while _SEMANTIC.format(count) in ids:
        count += 1
    if not count or IM_END not in ids:
        raise ModelLoadError(f"{file}: lacks {_SEMANTIC.format(0)} or {IM_END}")
    first = ids[_SEMANTIC.format(0)]
    if any(ids[_SEMANTIC.format(code)] != first + code for code in range(count)):
        raise ModelLoadError(f"{file}: the ids of semantic tokens do not follow each other")
    return SpecialTokens(MappingProxyType(ids), first, count)


def _of_tokenizer(section: ConfigSection) -> dict[str, int]:
    """Return added tokens, and vocabulary entries that look like special tokens."""
    vocabulary = section.section("model").section("vocab").values
    ids = {name: id_ for name, id_ in vocabulary.items() if name.startswith("<|")}
    added: Any = section.values.get("added_tokens") or []
    for each in added:
        entry = ConfigSection(section.file, "added_tokens", each)
        ids[entry.text("content")] = entry.integer("id")
    return ids
