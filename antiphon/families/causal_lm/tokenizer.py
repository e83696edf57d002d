"""Tokenizer of chats, from tokenizer.json, or from vocab.json and merges.txt."""

import json
import re
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from antiphon.contracts.config_file import ConfigSection
from antiphon.engine.faults import loaded
from antiphon.errors import ModelLoadError
from antiphon.families.kit.token_decoder import TokenDecoder, bytes_of_name
from antiphon.families.kit.token_ids import QWEN_WORDS, encoding_of

_GUARD = "\ufdd0"  # a noncharacter, which no text needs
_SPACE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_VOCABULARY, _MERGES = "vocab.json", "merges.txt"
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")


class ChatTokenizer:
    """A thread-safe tokenizer."""

    def __init__(self, file: Path, eos_token: str | None) -> None:
        """Load the tokenizer; raises ModelLoadError.

        Args:
            eos_token: token that ends an answer; ``None``: the checkpoint's files name none.
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
        """Return a user's text, escaped so that `encode` finds no special tokens in it."""
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        plain = text.replace(_GUARD, "")
        return self._special.sub(lambda found: f"{_GUARD}{found[0]}{_GUARD}", plain)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, including special tokens that it contains."""
        return self.encode_within(text, sys.maxsize)[0]

    def encode_within(self, text: str, max_tokens: int) -> tuple[list[int], int]:
        """Return the ids of a text like `encode`, none if they are too many, and their number.

        A list of millions of ids is never built, because that would hold the GIL.
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
        """Return the ids that end an answer: those of the configuration, and the tokenizer's own.

        Raises:
            ModelLoadError: no id is known.
        """
        own = None if self._eos_token is None else self._tokenizer.token_to_id(self._eos_token)
        ids = {*declared, *(() if own is None else (own,))}
        if not ids:
            raise ModelLoadError(
                f"{self._file.parent}: no file specifies the token that ends an answer"
                " ('eos_token_id' in generation_config.json, 'eos_token' in tokenizer_config.json)"
            )
        return tuple(sorted(ids))

    def is_special(self, token: int) -> bool:
        return token in self._specials

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token; empty if there is no such token."""
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
        """Return a streaming decoder of the tokens of one answer."""
        return TokenDecoder(self, strips_space=self._has_spaces)

    @cached_property
    def _letters(self) -> Tokenizer:
        """A tokenizer without special tokens."""
        tokenizer = _read(self._file)
        tokenizer.encode_special_tokens = True
        return tokenizer


def load_tokenizer(path: Path) -> ChatTokenizer:
    """Read the tokenizer of a checkpoint's directory; raises ModelLoadError."""
    file, eos_token = path / "tokenizer_config.json", None
    if file.is_file():
        value: Any = ConfigSection.read(file).values.get("eos_token")
        eos_token = value.get("content") if isinstance(value, dict) else value
    return ChatTokenizer(path / "tokenizer.json", eos_token)


def _read(file: Path) -> Tokenizer:
    def read() -> Tokenizer:
        if not file.is_file():
            return read_vocabulary_files(file.parent)
        return Tokenizer.from_str(file.read_text(encoding="utf-8"))

    tokenizer = loaded(read, f"{file}: cannot be read")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _has_space_marks(file: Path, tokenizer: Tokenizer) -> bool:
    """Return whether tokens are text with marks for spaces, rather than byte-level."""
    state: dict[str, Any] = {}
    if tokenizer.decoder is not None:
        state = json.loads(tokenizer.decoder.__getstate__())
    kinds = {each["type"] for each in state.get("decoders", [state]) if each}
    if "ByteLevel" in kinds:
        return False
    if kinds & {"ByteFallback", "Metaspace"}:
        return True
    raise ModelLoadError(f"{file}: 'decoder' must be of bytes, but is {sorted(kinds) or 'missing'}")


def has_vocabulary_files(folder: Path) -> bool:
    """Return whether a folder holds vocabulary and merges of a byte-level BPE."""
    return all((folder / name).is_file() for name in (_VOCABULARY, _MERGES))


def read_vocabulary_files(folder: Path) -> Tokenizer:
    """Return the tokenizer that transformers builds from these files; raises ModelLoadError."""
    file = folder / "tokenizer_config.json"
    config = ConfigSection.read(file)
    kind = config.text("tokenizer_class").removesuffix("Fast")
    model = BPE.from_file(str(folder / _VOCABULARY), str(folder / _MERGES))
    tokenizer = Tokenizer(model)
    prefix_space = config.boolean("add_prefix_space", False)
    if kind == "Qwen2Tokenizer":
        tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(QWEN_WORDS), behavior="isolated", invert=False)
        level = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    elif kind == "GPT2Tokenizer":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    else:
        raise config.error(
            "tokenizer_class",
            f"is '{kind}'; without a tokenizer.json, only Qwen2Tokenizer and"
            " GPT2Tokenizer are supported",
        )
    tokenizer.decoder = decoders.ByteLevel()
    for number, token in sorted(_added(folder, config).items()):
        tokenizer.add_tokens([token])
        if tokenizer.token_to_id(token.content) != number:
            raise ModelLoadError(f"{file}: the added token '{token.content}' cannot be {number}")
    named = [config.values.get(key) for key in _NAMED]
    named += config.values.get("additional_special_tokens") or []
    tokenizer.add_special_tokens([_token(each, {"special": True}) for each in named if each])
    return tokenizer


def _added(folder: Path, config: ConfigSection) -> dict[int, AddedToken]:
    added: dict[int, AddedToken] = {}
    if (folder / "added_tokens.json").is_file():
        ids = ConfigSection.read(folder / "added_tokens.json")
        added = {ids.integer(text): AddedToken(text, normalized=False) for text in ids.values}
    decoder = config.section("added_tokens_decoder", {})
    return added | {int(key): _token(decoder.section(key).values, {}) for key in decoder.values}


def _token(token: Any, more: dict[str, bool]) -> AddedToken:
    """Return a token from its description or its text."""
    if isinstance(token, str):
        return AddedToken(token, normalized=False, **more)
    keys = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return AddedToken(token["content"], **{key: token[key] for key in keys if key in token} | more)
