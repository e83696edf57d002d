"""Text to ids: marks stand for themselves, and no text can end a prompt."""

import json
from pathlib import Path

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.cosyvoice3.config import TEXT_FOLDER
from antiphon.families.cosyvoice3.tokenizer import FIRST_ADDED_ID, MARKS, load_tokenizer


@pytest.fixture
def folder(base: Path, tmp_path: Path) -> Path:
    """A folder with a vocabulary that lists nothing but text, as published."""
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_text((base / TEXT_FOLDER / name).read_text())
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    del vocabulary["<|endoftext|>"]
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    return tmp_path


def test_marks_have_the_published_numbers(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert tokenizer.end_of_prompt == FIRST_ADDED_ID + 3 == 151646
    assert len(set(MARKS)) == len(MARKS) == 278
    for mark, number in (("[breath]", 151647), ("[mn]", 151662), ("[AA]", 151664), ("[ǜ]", 151923)):
        assert tokenizer.encode(mark) == (number,)
    start, laugh, end = tokenizer.encode("a[laughter]b")
    assert laugh == 151646 + MARKS.index("[laughter]")
    assert max(start, end) < 256


def test_every_byte_has_a_number(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    text = "Ünïcode 中文 \n tabs\t 123 <|endofprompt|> <|im_end|> \ud800"
    assert max(tokenizer.encode(text)) < 256
    assert len(tokenizer.encode("中")) == 3
    assert tokenizer.encode("") == ()


def test_a_compact_vocabulary_says_where_marks_begin(base: Path) -> None:
    tokenizer = load_tokenizer(base / TEXT_FOLDER)
    assert tokenizer.end_of_prompt == 259
    assert tokenizer.encode("[breath]") == (260,)


def test_merges_are_followed(folder: Path) -> None:
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps(vocabulary | {"he": 256, "hel": 257}))
    (folder / "merges.txt").write_text("#version: 0.2\nh e\nhe l\n")
    assert load_tokenizer(folder).encode("hello")[0] == 257
    (folder / "merges.txt").write_text("h q\n")
    with pytest.raises(ModelLoadError, match="has no token"):
        load_tokenizer(folder)


@pytest.mark.parametrize("change", [{"a": None}, {"more": 4000}])
def test_broken_vocabularies_are_refused(folder: Path, change: dict[str, int | None]) -> None:
    vocabulary = json.loads((folder / "vocab.json").read_text()) | change
    kept = {name: number for name, number in vocabulary.items() if number is not None}
    (folder / "vocab.json").write_text(json.dumps(kept))
    with pytest.raises(ModelLoadError, match=r"vocab\.json"):
        load_tokenizer(folder)
