"""A checkpoint that is made without weights can be read, whatever its size and task are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from antiphon.families.registry import families, family

MADE = [
    (each.name, size, task)
    for each in families()
    if each.draws_weights and each.checkpoint_maker and not (each.extra and each.extra.missing)
    for task in each.checkpoint_maker.resolve().tasks or (None,)
    for size in each.checkpoint_maker.resolve().sizes or ("tiny",)
]
IDS = re.compile(r"(\w+_token|codec_\w+)_ids?|suppress_tokens")


@pytest.mark.parametrize(("name", "size", "task"), MADE)
def test_a_made_checkpoint_has_no_problems_and_ids_of_its_vocabularies(
    name: str, size: str, task: str | None, tmp_path: Path
) -> None:
    found = family(name)
    assert found.checkpoint_maker is not None
    assert found.inspector is not None
    found.checkpoint_maker.resolve()(tmp_path, size=size, task=task)
    assert found.inspector.resolve()(tmp_path).problems == ()
    for file in tmp_path.rglob("config.json"):
        assert list(ids_beyond(file)) == [], file


def ids_beyond(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the ids of a configuration and its tokenizer that the vocabularies do not have.

    An id belongs to the vocabulary of its section; ids of text, and those of sections without a
    vocabulary, to the largest one of the file.
    """
    parts = [*sections(json.loads(file.read_text(encoding="utf-8")))]
    sizes = [each for part in parts for key, each in part.items() if key.endswith("vocab_size")]
    largest = max((each for each in sizes if isinstance(each, int)), default=None)
    if largest is None:
        return
    generation = file.with_name("generation_config.json")
    if generation.is_file():
        parts.append(json.loads(generation.read_text(encoding="utf-8")))
    for part in parts:
        for key, value in part.items():
            if IDS.fullmatch(key) and value is not None:
                is_own = "vocab_size" in part and "text" not in key
                limit = part["vocab_size"] if is_own else largest
                ids = value if isinstance(value, list) else [value]
                ids = [*value.values()] if isinstance(value, dict) else ids
                yield from ((key, each) for each in ids if not 0 <= each < limit)
    folder = "../tokenizer" if file.parent.name == "text_encoder" else "."
    if (words := file.parent / folder / "tokenizer.json").is_file():
        vocabulary = Tokenizer.from_file(str(words)).get_vocab()
        yield from (each for each in vocabulary.items() if each[1] >= largest)


def sections(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, dict):
        yield content
        for value in content.values():
            yield from sections(value)
