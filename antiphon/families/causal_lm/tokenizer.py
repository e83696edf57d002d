"""Text to ids and back, by a checkpoint's tokenizer.json."""

import json
import re
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from antiphon.contracts.config_file import ConfigSection
from antiphon.engine.faults import fault_of
from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.vocabulary_files import (
    has_vocabulary_files,
    read_vocabulary_files,
)
from antiphon.families.kit.token_decoder import TokenDecoder, bytes_of_name
from antiphon.families.kit.token_ids import encoding_of

_GUARD = "\ufdd0"  # a noncharacter: no text needs it
_SPACE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class ChatTokenizer:
    """A tokenizer; may be used from any thread."""

    def __init__(self, file: Path, eos_token: str | None) -> None:
        """Read it.

        Args:
            file: tokenizer.json.
            eos_token: that ends an answer, if the checkpoint's files name it.

        Raises:
            ModelLoadError: it is missing or broken, or of a kind that is not known.
        """
        if not file.is_file() and not has_vocabulary_files(file.parent):
            raise ModelLoadError(
                f"{file.parent}: there is no tokenizer.json, and no vocab.json with merges.txt"
            )
        self._file = file
        self._tokenizer = _read(file)
        self._eos_token = eos_token
        added = self._tokenizer.get_added_tokens_decoder()
        self._added = {number: each.content.encode() for number, each in added.items()}
        self._specials = {number for number, each in added.items() if each.special}
        self._has_spaces = _has_space_marks(file, self._tokenizer)
        names = sorted({added[number].content for number in self._specials}, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, names)) or "(?!)")

    def guarded(self, text: str) -> str:
        """Return a user's text so that `encode` reads no special token out of it."""
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        plain = text.replace(_GUARD, "")
        return self._special.sub(lambda found: f"{_GUARD}{found[0]}{_GUARD}", plain)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, in which special tokens stand for themselves."""
        return self.encode_within(text, sys.maxsize)[0]

    def encode_within(self, text: str, max_tokens: int) -> tuple[list[int], int]:
        """Return the ids of a text as `encode` does, none if they are too many, and their number.

        A list of millions is not made: that holds the interpreter's lock.
        """
        ids: list[int] = []
        num_tokens = 0
        for number, part in enumerate(text.split(_GUARD)):
            tokenizer = self._letters if number % 2 else self._tokenizer
            if part:
                encoding = encoding_of(tokenizer, part)
                num_tokens += len(encoding)
                if num_tokens <= max_tokens:
                    ids += encoding.ids
        return ids if num_tokens <= max_tokens else [], num_tokens

    def eos_ids(self, declared: Sequence[int]) -> tuple[int, ...]:
        """Return ids that end an answer: those of a configuration, and the tokenizer's own.

        Raises:
            ModelLoadError: there is none.
        """
        own = None if self._eos_token is None else self._tokenizer.token_to_id(self._eos_token)
        ids = {*declared, *(() if own is None else (own,))}
        if not ids:
            raise ModelLoadError(
                f"{self._file.parent}: no file says which token ends an answer ('eos_token_id' in"
                " generation_config.json, 'eos_token' in tokenizer_config.json)"
            )
        return tuple(sorted(ids))

    def is_special(self, token: int) -> bool:
        """Whether a token is no text."""
        return token in self._specials

    def token_bytes(self, token: int) -> bytes:
        """Return what a token stands for; nothing, if there is no such token."""
        if token in self._added:
            return self._added[token]
        name = self._tokenizer.id_to_token(token)
        if name is None:
            return b""
        if self._has_spaces:
            if found := _BYTE.fullmatch(name):
                return bytes([int(found[1], 16)])
            return name.replace(_SPACE, " ").encode()
        return bytes_of_name(name)

    def decoder(self) -> TokenDecoder:
        """Return what reads the tokens of one answer."""
        return TokenDecoder(self, strips_space=self._has_spaces)

    @cached_property
    def _letters(self) -> Tokenizer:
        """A tokenizer that knows no special token."""
        tokenizer = _read(self._file)
        tokenizer.encode_special_tokens = True
        return tokenizer


def load_tokenizer(path: Path) -> ChatTokenizer:
    """Read the tokenizer of a checkpoint's directory.

    Raises:
        ModelLoadError: it is missing or broken, or of a kind that is not known.
    """
    file, eos_token = path / "tokenizer_config.json", None
    if file.is_file():
        value: Any = ConfigSection.read(file).values.get("eos_token")
        eos_token = value.get("content") if isinstance(value, dict) else value
    return ChatTokenizer(path / "tokenizer.json", eos_token)


def _read(file: Path) -> Tokenizer:
    read: list[Tokenizer] = []

    def tokenizer_of(file: Path) -> Tokenizer:
        if not file.is_file():
            return read_vocabulary_files(file.parent)
        return Tokenizer.from_str(file.read_text(encoding="utf-8"))

    fault = fault_of(lambda: read.append(tokenizer_of(file)))
    if isinstance(fault, ModelLoadError):
        raise fault
    if fault is not None:
        raise ModelLoadError(f"{file}: cannot be read: {fault}") from fault
    (tokenizer,) = read
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _has_space_marks(file: Path, tokenizer: Tokenizer) -> bool:
    """Return whether tokens are text with marks for spaces; else they are bytes, as letters."""
    state: dict[str, Any] = {}
    if tokenizer.decoder is not None:
        state = json.loads(tokenizer.decoder.__getstate__())
    kinds = {each["type"] for each in state.get("decoders", [state]) if each}
    if "ByteLevel" in kinds:
        return False
    if kinds & {"ByteFallback", "Metaspace"}:
        return True
    raise ModelLoadError(f"{file}: 'decoder' must be of bytes, but is {sorted(kinds) or 'missing'}")
