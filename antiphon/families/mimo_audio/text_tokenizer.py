"""Qwen2.5's byte-level BPE tokenizer with the special tokens of speech."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE

from antiphon.contracts.config_file import ConfigSection
from antiphon.engine.faults import loaded
from antiphon.errors import ModelLoadError
from antiphon.families.kit.token_decoder import bytes_of_name
from antiphon.families.kit.token_ids import qwen_tokenizer, token_ids

IM_START, IM_END = "<|im_start|>", "<|im_end|>"
SPEECH_TOKENS = (
    *("<|sosp|>", "<|eosp|>", "<|empty|>", "<|Human|>"),
    *("<|SpeechLM|>", "<|sostm|>", "<|eostm|>", "<|eot|>"),
)
"""Special tokens in the order of their ids; appended to a vocabulary that lacks them."""


class MiMoTextTokenizer:
    """Thread-safe tokenizer of prompts.

    Attributes:
        empty_id: text id of a group of speech.
        stop_ids: text ids that end a request.
    """

    def __init__(self, tokenizer: Tokenizer, eos: str | None, vocab_size: int) -> None:
        """Add missing special tokens; raises ModelLoadError."""
        known = tokenizer.get_vocab(with_added_tokens=True)
        missing = [name for name in SPEECH_TOKENS if name not in known]
        _add(tokenizer, *missing)
        self._tokenizer = tokenizer
        self._added: Mapping[int, AddedToken] = tokenizer.get_added_tokens_decoder()
        self._special_ids = {name: self._id(name) for name in (IM_START, IM_END, *SPEECH_TOKENS)}
        beyond = [name for name, number in self._special_ids.items() if number >= vocab_size]
        if beyond:
            raise ModelLoadError(f"{beyond[0]} has no row in the embedding of {vocab_size} tokens")
        self.empty_id = self._special_ids["<|empty|>"]
        ends = [tokenizer.token_to_id(name) for name in ("<|eostm|>", IM_END, eos or IM_END)]
        self.stop_ids = tuple(sorted({number for number in ends if number is not None}))
        tokenizer.encode_special_tokens = True  # special tokens in user text stay text

    def encode(self, parts: Iterable[str]) -> list[int]:
        """Return the ids of parts; a part that equals a special token becomes that token."""
        ids: list[int] = []
        for part in parts:
            if part in self._special_ids:
                ids.append(self._special_ids[part])
            else:
                ids += self.encode_text(part)
        return ids

    def encode_text(self, text: str) -> list[int]:
        """Return the ids of text, without special tokens."""
        return token_ids(self._tokenizer, text)

    def is_special(self, token: int) -> bool:
        return token in self._added and self._added[token].special

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token; empty if there is no such token."""
        if token in self._added:
            return self._added[token].content.encode()
        name = self._tokenizer.id_to_token(token)
        return b"" if name is None else bytes_of_name(name)

    def _id(self, name: str) -> int:
        number = self._tokenizer.token_to_id(name)
        if number is None:
            raise ModelLoadError(f"the tokenizer has no token {name}")
        return int(number)


def load_text_tokenizer(path: Path, vocab_size: int) -> MiMoTextTokenizer:
    """Read tokenizer.json, or vocab.json and merges.txt; raises ModelLoadError."""
    file = path / "tokenizer_config.json"
    section = ConfigSection.read(file) if file.is_file() else ConfigSection(file, "", {})
    value: Any = section.values.get("eos_token")
    eos = value.get("content") if isinstance(value, dict) else value
    tokenizer = loaded(lambda: _read(path, section), f"{path}: the tokenizer cannot be read")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    try:
        return MiMoTextTokenizer(tokenizer, eos, vocab_size)
    except ModelLoadError as error:
        raise ModelLoadError(f"{path}: {error.message}") from error


def _read(path: Path, section: ConfigSection) -> Tokenizer:
    """Read tokenizer.json, or build it from other files and the configured added tokens."""
    if (path / "tokenizer.json").is_file():
        return Tokenizer.from_str((path / "tokenizer.json").read_text(encoding="utf-8"))
    if not (path / "vocab.json").is_file():
        raise ModelLoadError(f"{path}: there is neither tokenizer.json nor vocab.json")
    model = BPE.from_file(str(path / "vocab.json"), str(path / "merges.txt"))
    tokenizer = qwen_tokenizer(model)
    tokenizer.decoder = decoders.ByteLevel()
    added: Any = section.values.get("added_tokens_decoder") or {}
    for number, token in sorted((int(key), value) for key, value in added.items()):
        name = str(token["content"])
        _add(tokenizer, name)
        if tokenizer.token_to_id(name) != number:
            raise section.error("added_tokens_decoder", f"{name} does not get its id, {number}")
    return tokenizer


def _add(tokenizer: Tokenizer, *names: str) -> None:
    tokens = [AddedToken(name, special=True, normalized=False) for name in names]
    tokenizer.add_special_tokens(tokens)
