"""Chinese is read word by word, whatever stands around it, and nothing raises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.families.kokoro.random_vocabulary import VOCABULARY
from antiphon.text.chinese import ChineseReader
from antiphon.text.english import EnglishReader

pytest.importorskip("misaki", reason="misaki is not installed: scripts/setup chinese")

MAX_PHONEMES = 510


@pytest.fixture(scope="module")
def reader() -> ChineseReader:
    english = EnglishReader(VOCABULARY, british=False, max_phonemes=MAX_PHONEMES)
    return ChineseReader(VOCABULARY, english, max_phonemes=MAX_PHONEMES)


def test_words_are_read_as_misaki_reads_a_sentence(reader: ChineseReader) -> None:
    from misaki.zh import ZHG2P

    for text in ("今天天气很好，我们去公园散步吧。", "他有三百二十本书！", "你叫什么名字？"):
        assert reader.pronounce(text) == ZHG2P()(text)[0]


def test_sentences_words_and_numbers(reader: ChineseReader) -> None:
    text = "他说：“好！”然后走了。2024年有30%的人。Hello 你好"
    sentences, words = reader.read(text), reader.read_words(text)
    assert len(sentences) == len(words) == 3
    assert [each.word for each in words[0]] == ["他", "说", "好", "然后", "走", "了"]
    assert "百分之三十" in [each.word for each in words[1]]
    assert [each.word for each in words[2]] == ["Hello", "你好"]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(st.sampled_from("你好天气啊嗯㐀龘1٣½9.。，!？%-—“”（abé'  \n😀が한"), max_size=40))
def test_no_text_raises(reader: ChineseReader, text: str) -> None:
    sentences, words = reader.read(text), reader.read_words(text)
    assert len(sentences) == len(words)
    for ids, placed in zip(sentences, words, strict=True):
        assert 0 < len(ids) <= MAX_PHONEMES
        places = [place for word in placed for place in (word.start, word.stop)]
        assert places == sorted(places)
        assert all(0 <= place <= len(ids) for place in places)
    reader.check(text)


@pytest.mark.parametrize("text", ["9" * 400, "1.2.3.4", "你" * 3000, "a" * 500])
def test_monstrous_texts_are_read_in_parts(reader: ChineseReader, text: str) -> None:
    assert max(map(len, reader.read(text))) <= MAX_PHONEMES


def test_what_is_left_out_is_known(reader: ChineseReader) -> None:
    check = reader.check("😀你好 hello が")
    assert check.is_spoken
    assert check.unspoken == ("😀", "が")


def test_a_rare_character_says_nothing_about_others(reader: ChineseReader) -> None:
    assert not reader.check("\U00020bb7").is_spoken
    assert reader.check("你好").unspoken == ()
    assert reader.check("你\U00020bb7好").unspoken == ("\U00020bb7",)


def test_a_round_zero_is_read(reader: ChineseReader) -> None:
    assert reader.pronounce("二〇一") == reader.pronounce("二零一")
