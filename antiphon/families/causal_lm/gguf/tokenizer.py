"""Tokenizer files of a chat model from the metadata of its GGUF file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from antiphon.engine.faults import loaded
from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.gguf_file import GGUFFile
from antiphon.families.kit.token_ids import QWEN_WORDS, byte_level_bpe, qwen_tokenizer

_TOKENIZER = "tokenizer.json"
_CONTROL, _OWN, _UNUSED = 3, 4, 5  # types of tokens
_LLAMA_WORDS: Final = QWEN_WORDS.replace(r"|\p{N}", r"|\p{N}{1,3}")
_KEYS: Final = {"eos_token": "eos_token_id", "bos_token": "bos_token_id"}
_ENDS: Final = ("eos_token_id", "eot_token_id", "eom_token_id")


def write_tokenizer(folder: Path, gguf: GGUFFile) -> None:
    """Write tokenizer.json and tokenizer_config.json; raises ModelLoadError.

    A tokenizer.json beside the GGUF file takes precedence over the metadata.
    """
    metadata = gguf.metadata
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list):
        raise ModelLoadError(f"{gguf.path}: 'tokenizer.ggml.tokens' is missing")
    kinds = metadata.get("tokenizer.ggml.token_type", [1] * len(tokens))
    beside = gguf.path.with_name(_TOKENIZER)
    if beside.is_file():
        tokenizer = loaded(lambda: Tokenizer.from_file(str(beside)), f"{beside}: cannot be read")
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
            if kind != _UNUSED and tokenizer.id_to_token(number) != token:
                raise ModelLoadError(
                    f"{beside}: token {number} is not {token!r}, as in {gguf.path.name}; use the"
                    " tokenizer.json of the same model"
                )
    else:
        tokenizer = loaded(
            lambda: _tokenizer(gguf, tokens, kinds), f"{gguf.path}: 'tokenizer.ggml' cannot be read"
        )
    tokenizer.save(str(folder / _TOKENIZER))
    config: dict[str, Any] = {"chat_template": metadata.get("tokenizer.chat_template")}
    for name, key in _KEYS.items():
        id = metadata.get(f"tokenizer.ggml.{key}")
        config[name] = tokens[id] if isinstance(id, int) and id in range(len(tokens)) else None
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def end_ids(metadata: Mapping[str, Any]) -> list[int]:
    found = {metadata.get(f"tokenizer.ggml.{key}") for key in _ENDS}
    return sorted(number for number in found if isinstance(number, int))


def _tokenizer(gguf: GGUFFile, tokens: list[str], kinds: list[int]) -> Tokenizer:
    """Return the byte-level BPE that the metadata describes."""
    model = gguf.metadata.get("tokenizer.ggml.model")
    cut = gguf.metadata.get("tokenizer.ggml.pre")
    makers = {
        "qwen2": qwen_tokenizer,
        "llama-bpe": lambda bpe: byte_level_bpe(bpe, _LLAMA_WORDS),
        "smollm": _smollm,
    }
    if model != "gpt2" or cut not in makers:
        raise ModelLoadError(
            f"{gguf.path}: 'tokenizer.ggml.model' is {model!r} and 'tokenizer.ggml.pre' {cut!r};"
            f" only 'gpt2' with {', '.join(makers)} is supported. Put the model's tokenizer.json"
            " beside the file."
        )
    pairs = [tuple(each.split(" ", 1)) for each in gguf.metadata["tokenizer.ggml.merges"]]
    vocabulary = {
        token: number
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind != _UNUSED
    }
    tokenizer = makers[cut](BPE(vocabulary, pairs, ignore_merges=cut == "llama-bpe"))
    tokenizer.decoder = decoders.ByteLevel()
    for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if kind in (_CONTROL, _OWN):
            is_special = kind == _CONTROL
            tokenizer.add_tokens([AddedToken(token, normalized=False, special=is_special)])
            if tokenizer.token_to_id(token) != number:
                raise ModelLoadError(f"{gguf.path}: the token {token!r} cannot be {number}")
    return tokenizer


def _smollm(model: BPE) -> Tokenizer:
    """Return a tokenizer of GPT-2's words, and digits one by one."""
    tokenizer = Tokenizer(model)
    parts = [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    return tokenizer
