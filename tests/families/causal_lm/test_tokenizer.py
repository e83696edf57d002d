"""Tokens to text, byte by byte; against the tokenizers library."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.tokenizer import ChatTokenizer, load_tokenizer

TEXT = "Grüße, 你好 🙂!"


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> ChatTokenizer:
    return load_tokenizer(checkpoint)


def pushed(tokenizer: ChatTokenizer, tokens: list[int]) -> list[str]:
    decoder = tokenizer.decoder()
    return [*(decoder.push(token) for token in tokens), decoder.flush()]


def test_a_character_comes_with_its_last_byte(tokenizer: ChatTokenizer) -> None:
    tokens = tokenizer.encode(TEXT)
    assert len(tokens) == len(TEXT.encode())
    parts = pushed(tokenizer, tokens)
    assert "".join(parts) == TEXT
    assert not any("\ufffd" in part for part in parts)
    assert parts.count("") == len(tokens) - len(TEXT) + 1


def test_what_is_no_character_is_replaced_at_the_end(tokenizer: ChatTokenizer) -> None:
    tokens = tokenizer.encode("a🙂")[:-1]
    assert pushed(tokenizer, tokens) == ["a", "", "", "", "\ufffd"]
    assert tokenizer.token_bytes(tokens[1]) == b"\xf0"


def test_control_tokens_are_no_text_and_have_names(tokenizer: ChatTokenizer) -> None:
    assert "".join(pushed(tokenizer, [257, 72, 105, 258])) == "Hi"
    assert tokenizer.token_bytes(258) == b"<|im_end|>"
    assert tokenizer.token_bytes(10**6) == b""


@given(tokens=st.lists(st.integers(0, 258), max_size=30))
def test_bytes_are_read_as_the_library_reads_them(checkpoint: Path, tokens: list[int]) -> None:
    tokenizer = load_tokenizer(checkpoint)
    library: Any = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    assert "".join(pushed(tokenizer, tokens)) == library.decode(tokens)


def test_tokens_with_marks_for_spaces_are_read(tmp_path: Path) -> None:
    words = ["<unk>", "</s>", *(f"<0x{value:02X}>" for value in range(256)), "▁Hel", "lo", "▁you"]
    vocabulary = {word: number for number, word in enumerate(words)}
    library: Any = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    library.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    library.add_special_tokens([AddedToken("</s>", special=True)])
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    smile = [2 + value for value in "🙂".encode()]
    tokens = [258, 259, 260, *smile, 1]
    assert "".join(pushed(tokenizer, tokens)) == "Hello you🙂" == library.decode(tokens)
    assert tokenizer.token_bytes(258) == b" Hel"
    with pytest.raises(ModelLoadError, match="the token that ends an answer"):
        tokenizer.eos_ids(())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "</s>"}}))
    assert load_tokenizer(tmp_path).eos_ids((7,)) == (1, 7)


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    library: Any = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    library.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelLoadError, match="'decoder'"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelLoadError, match="cannot be read"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(ModelLoadError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)
