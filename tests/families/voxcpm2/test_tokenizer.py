"""Texts to ids: any text, Chinese character by character, never a special token."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from antiphon.errors import ModelLoadError
from antiphon.families.voxcpm2.sizes import vocabulary
from antiphon.families.voxcpm2.tokenizer import VoxCPM2Tokenizer, load_tokenizer

VOCABULARY = vocabulary()


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> VoxCPM2Tokenizer:
    return load_tokenizer(checkpoint, 384)


def test_words_of_chinese_are_read_character_by_character(
    tokenizer: VoxCPM2Tokenizer, checkpoint: Path
) -> None:
    plain = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    assert VOCABULARY["你好"] in plain.encode("你好", add_special_tokens=False).ids
    assert tokenizer.encode("你好")[-2:] == [VOCABULARY["你"], VOCABULARY["好"]]


def test_what_is_no_token_is_read_as_bytes(tokenizer: VoxCPM2Tokenizer) -> None:
    assert tokenizer.encode("é")[-2:] == [VOCABULARY["<0xC3>"], VOCABULARY["<0xA9>"]]
    assert tokenizer.encode("\ud83d")  # half a character
    assert tokenizer.encode("") == []


@pytest.mark.parametrize("name", ["<s>", "</s>", "<unk>", "<|audio_start|>"])
def test_names_of_special_tokens_are_text(name: str, tokenizer: VoxCPM2Tokenizer) -> None:
    assert VOCABULARY[name] not in tokenizer.encode(f"a{name}b")


def test_more_ids_than_the_model_has_are_refused(checkpoint: Path) -> None:
    with pytest.raises(ModelLoadError, match="362 ids"):
        load_tokenizer(checkpoint, 361)
