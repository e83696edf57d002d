"""Which ids a checkpoint's tokenizer has for what is no text; reads JSON only."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError

TOKENIZER_FILE = "tokenizer.json"
RANKS_FILE, SPECIAL_FILE = "tokenizer.tiktoken", "special_tokens.json"
"""What S1 has in its place."""

IM_START, IM_END, VOICE, INTERLEAVE = "<|im_start|>", "<|im_end|>", "<|voice|>", "<|interleave|>"
_SEMANTIC = "<|semantic:{}|>"


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of what prompts and answers are made of.

    Attributes:
        ids: of every token that is no text, by name.
        first_semantic: of the first semantic code; the others follow.
        num_semantic: semantic codes.
    """

    ids: Mapping[str, int]
    first_semantic: int
    num_semantic: int

    @property
    def end(self) -> int:
        """Ends speech."""
        return self.ids[IM_END]

    @property
    def largest(self) -> int:
        return max(self.ids.values())


def read_special_tokens(path: Path) -> SpecialTokens:
    """Read them from tokenizer.json or special_tokens.json of a directory.

    Raises:
        ModelLoadError: there is neither, or a token is missing, or semantic tokens have gaps.
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
    """Return added tokens, and what looks like one in the vocabulary."""
    vocabulary = section.section("model").section("vocab").values
    ids = {name: id_ for name, id_ in vocabulary.items() if name.startswith("<|")}
    added: Any = section.values.get("added_tokens") or []
    for each in added:
        entry = ConfigSection(section.file, "added_tokens", each)
        ids[entry.text("content")] = entry.integer("id")
    return ids
