"""Tokenizers of checkpoints with vocab.json and merges.txt instead of tokenizer.json."""

from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError

_VOCABULARY, _MERGES = "vocab.json", "merges.txt"
_QWEN2_SPLIT: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")


def has_vocabulary_files(folder: Path) -> bool:
    """Return whether a folder holds vocabulary and merges of a byte-level BPE."""
    return all((folder / name).is_file() for name in (_VOCABULARY, _MERGES))


def read_vocabulary_files(folder: Path) -> Tokenizer:
    """Return the same tokenizer that transformers builds from these files.

    Raises:
        ModelLoadError: the tokenizer's class is not supported, or an added token has no id.
    """
    file = folder / "tokenizer_config.json"
    config = ConfigSection.read(file)
    kind = config.text("tokenizer_class").removesuffix("Fast")
    model = BPE.from_file(str(folder / _VOCABULARY), str(folder / _MERGES))
    tokenizer = Tokenizer(model)
    prefix_space = config.boolean("add_prefix_space", False)
    if kind == "Qwen2Tokenizer":
        tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(_QWEN2_SPLIT), behavior="isolated", invert=False)
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
    """Return the added tokens by id."""
    added: dict[int, AddedToken] = {}
    if (folder / "added_tokens.json").is_file():
        told = ConfigSection.read(folder / "added_tokens.json")
        added = {told.integer(text): AddedToken(text, normalized=False) for text in told.values}
    decoder = config.section("added_tokens_decoder", {})
    return added | {int(key): _token(decoder.section(key).values, {}) for key in decoder.values}


def _token(told: Any, more: dict[str, bool]) -> AddedToken:
    """Return a token from its description or its text."""
    if isinstance(told, str):
        return AddedToken(told, normalized=False, **more)
    keys = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return AddedToken(told["content"], **{key: told[key] for key in keys if key in told} | more)
