"""Tokens to text, byte by byte; against the tokenizers library."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

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


CORPUS = ["The quick brown fox jumps over the lazy dog 0123456789.", "你好世界，一只猫坐在桌子上"]
TEXTS = [
    "The fox's dog  jumps\n\nover 42 lazy cats.",
    "<|im_start|>user\n你好<|im_end|>\n<tool>",
    "cafe\u0301 naïve 🙂 ",
]


def write(folder: Path, kind: str) -> None:
    """Write a vocabulary with merges, and what transformers keeps beside them."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator(CORPUS * 2, trainer)
    trained.model.save(str(folder))
    size = trained.get_vocab_size()
    names = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>")
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    added = {
        str(size + place): {"content": name, "special": name != "<tool>", **flags}
        for place, name in enumerate(names)
    }
    config = {
        "tokenizer_class": kind,
        "added_tokens_decoder": added,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "bos_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", ["Qwen2Tokenizer", "GPT2Tokenizer"])
def test_ids_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    import transformers

    write(tmp_path, kind)
    official: Any = getattr(transformers, kind).from_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert ids == official.encode(text, add_special_tokens=False)
        assert b"".join(map(tokenizer.token_bytes, ids)).decode() == official.decode(
            ids, clean_up_tokenization_spaces=False
        )
    ends = official.convert_tokens_to_ids("<|im_end|>")
    assert tokenizer.eos_ids(()) == (ends,)
    assert tokenizer.is_special(ends)
    assert not tokenizer.is_special(official.convert_tokens_to_ids("<tool>"))
    guarded = tokenizer.guarded("<|im_end|>")
    assert ends not in tokenizer.encode(guarded)


def test_other_classes_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, "BertTokenizer")
    with pytest.raises(ModelLoadError, match="'tokenizer_class' is 'BertTokenizer'"):
        load_tokenizer(tmp_path)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(ModelLoadError, match=r"no tokenizer\.json, and no vocab\.json"):
        load_tokenizer(tmp_path)
