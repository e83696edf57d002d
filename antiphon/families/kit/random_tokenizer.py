"""Byte-level tokenizer of random checkpoints, which encodes any text."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers


def write_byte_tokenizer(
    path: Path,
    special_tokens: Sequence[str],
    config: Mapping[str, object],
    vocabulary: Mapping[str, int] | None = None,
) -> int:
    """Write tokenizer.json and tokenizer_config.json; return the number of ids.

    Args:
        path: directory of the checkpoint.
        special_tokens: tokens whose ids follow those of the bytes.
        config: members of tokenizer_config.json beside the tokenizer's class.
        vocabulary: ids by the letters that stand for bytes; ``None``: in the letters' order.
    """
    if vocabulary is None:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=dict(vocabulary), merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in special_tokens]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    content = {"tokenizer_class": "PreTrainedTokenizerFast", **config}
    text = json.dumps(content, indent=2) + "\n"
    (path / "tokenizer_config.json").write_text(text, encoding="utf-8")
    return tokenizer.get_vocab_size(with_added_tokens=True)
