"""Text becomes the ids that the official processor gives, and can never become a special token."""

import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE

from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.sizes import SPECIAL_TOKENS, write_vocabulary
from antiphon.families.qwen3_tts.tokenizer import ChatTemplate, Encode, load_tokenizer
from tests.families.qwen3_tts.oracle.texts import TEXTS
from tests.families.qwen3_tts.random_checkpoint import Size, write_all_but_weights

OFFICIAL = json.loads(
    (Path(__file__).parent / "fixtures" / "tokens.json").read_text(encoding="utf-8")
)
IM_START, IM_END = 151644, 151645
NEWLINE = 198


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with Qwen's own vocabulary."""
    path = tmp_path_factory.mktemp("full")
    write_vocabulary(path, "full", compact=False)
    return path


@pytest.fixture(scope="module")
def tokenizer(full: Path) -> Encode:
    return load_tokenizer(full)


def test_ids_are_the_official_ones(tokenizer: Encode) -> None:
    assert len(TEXTS) == len(OFFICIAL)
    for text, official in zip(TEXTS, OFFICIAL, strict=True):
        ids = [IM_START, *tokenizer(f"assistant\n{text}"), IM_END, NEWLINE]
        assert ids == official, text


def test_known_words_have_their_published_ids(tokenizer: Encode) -> None:
    assert tokenizer("assistant") == (77091,)
    assert tokenizer("user") == (872,)
    assert tokenizer("\n") == (NEWLINE,)
    assert tokenizer("") == ()


@pytest.mark.parametrize("special", SPECIAL_TOKENS)
def test_special_tokens_in_text_are_only_letters(tokenizer: Encode, special: str) -> None:
    ids = tokenizer(f"say {special} now")
    assert max(ids) < 151643
    assert len(ids) > 3


def test_a_byte_vocabulary_keeps_text_harmless_too(
    checkpoint: Callable[[Size, CheckpointTask], Path],
) -> None:
    path = checkpoint("tiny", CheckpointTask.BASE)
    tokens = load_config(path).tokens
    encode = load_tokenizer(path)
    ids = encode("<|im_end|><tts_pad>")
    assert ids == tuple(b"<|im_end|><tts_pad>")
    assert {tokens.im_start, tokens.im_end, tokens.tts_pad}.isdisjoint(ids)


@pytest.fixture(scope="module")
def byte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a vocabulary of bytes and a few steps to two words."""
    path = tmp_path_factory.mktemp("byte")
    write_vocabulary(path, "byte", compact=True)
    return path


@pytest.fixture(scope="module")
def spell(byte: Path) -> Callable[[str], str]:
    """Return what the tokens of a text stand for."""
    vocab = json.loads((byte / "vocab.json").read_text(encoding="utf-8"))
    alphabet = {id: token for token, id in vocab.items()}
    encode = load_tokenizer(byte)
    return lambda text: "".join(alphabet[id] for id in encode(text))


@given(text=st.text(max_size=60))
def test_ids_spell_the_composed_text(spell: Callable[[str], str], text: str) -> None:
    spelled = spell(text)
    assert ByteLevelDecoder().decode([spelled]) == unicodedata.normalize("NFC", text)


def test_text_that_no_encoding_has_is_replaced(byte: Path) -> None:
    assert load_tokenizer(byte)("a\ud800b") == tuple("a\ufffdb".encode())


def test_one_file_serves_as_well_as_two(full: Path, tmp_path: Path) -> None:
    vocab = json.loads((full / "vocab.json").read_text(encoding="utf-8"))
    lines = (full / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    merges = [(left, right) for left, right in (line.split(" ") for line in lines)]
    Tokenizer(BPE(vocab, merges)).save(str(tmp_path / "tokenizer.json"))
    encode = load_tokenizer(tmp_path)
    ids = [list(encode(f"assistant\n{text}")) for text in TEXTS]
    assert ids == [official[1:-2] for official in OFFICIAL]


def test_merges_may_be_written_as_strings(byte: Path, tmp_path: Path) -> None:
    vocab = json.loads((byte / "vocab.json").read_text(encoding="utf-8"))
    merges = (byte / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    content = {"model": {"vocab": vocab, "merges": merges}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    for text in TEXTS:
        assert load_tokenizer(tmp_path)(text) == load_tokenizer(byte)(text)


def test_turns_are_the_official_ones(full: Path, tokenizer: Encode, tmp_path: Path) -> None:
    config = write_all_but_weights(tmp_path, size="1.7b", task=CheckpointTask.BASE, dtype="float32")
    turns = ChatTemplate(tokenizer, config.tokens)
    for text, official in zip(TEXTS, OFFICIAL, strict=True):
        role, body = turns.spoken(text)
        assert [*role, *body] == official[:-2]
        assert len(role) == 3
    assert turns.instructions("Hi") == (IM_START, 872, NEWLINE, 13048, IM_END, NEWLINE)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("vocab.json", "{}", "256 bytes have no token"),
        ("vocab.json", "[]", r"vocab\.json"),
        ("vocab.json", '{"a": "b"}', "'a'"),
        ("merges.txt", "a b c\n", "not a merge of two tokens"),
        ("merges.txt", "x y\n", "has no token"),
        ("merges.txt", None, r"merges\.txt"),
        ("vocab.json", None, r"neither vocab\.json nor tokenizer\.json"),
    ],
)
def test_broken_files_are_named(
    byte: Path, tmp_path: Path, file: str, content: str | None, message: str
) -> None:
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(byte / name, tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(ModelLoadError, match=message):
        load_tokenizer(tmp_path)
