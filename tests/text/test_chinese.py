"""Chinese is read word by word, whatever stands around it, and nothing raises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.text.chinese import ChineseReader
from antiphon.text.chinese_numbers import cardinal, chinese_pieces_of
from antiphon.text.english import EnglishReader
from tests.families.kokoro.random_vocabulary import VOCABULARY

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
    assert [each.word for each in words[1]] == ["2024年", "有", "30%", "的", "人"]
    assert [each.read for each in words[1]] == ["二零二四年", "有", "百分之三十", "的", "人"]
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


READINGS = (
    ("我有3个苹果和2个梨。", "我有三个苹果和两个梨。"),
    ("第2章有12页，共1,234,567字", "第二章有十二页,共一百二十三万四千五百六十七字"),
    ("2000人，20002人，22000人，105人", "两千人,两万零二人,两万两千人,一百零五人"),
    ("10亿和2亿，100001000", "十亿和两亿,一亿零一千"),
    ("编号007，密码0042", "编号零零七,密码零零四二"),
    ("2024年5月1日", "二零二四年五月一日"),
    ("2024-05-01和2024/5/1", "二零二四年五月一日和二零二四年五月一日"),
    ("1990年代，2010-2020年", "一九九零年代,二零一零到二零二零年"),
    ("15:05开会，3:30 PM结束", "十五点零五分开会,下午三点三十分结束"),
    ("9:00-18:00，2点", "九点到十八点,两点"),
    ("比分3:2，占1/2", "比分三比二,占二分之一"),
    ("$5.50，￥100，5€", "五点五美元,一百元,五欧元"),
    ("花了$5万，US$3，USD 20", "花了五万美元,三美元,二十美元"),
    ("涨了3.5%，50%-60%，5-10%", "涨了百分之三点五,百分之五十到百分之六十,百分之五到十"),
    ("-5℃，25°C，零下5度", "零下五摄氏度,二十五摄氏度,零下五度"),
    ("2kg，100 km/h，100m²", "两公斤,一百公里每小时,一百平方米"),
    ("电话13800138000，010-12345678", "电话幺三八零零幺三八零零零,零幺零，幺二三四五六七八"),
    ("拨打110", "拨打幺幺零"),
    ("版本3.2.1，地址192.168.1.1", "版本三点二点一,地址一九二点一六八点一点一"),
    ("3+4=7，5×3，x>5，±5，~20人", "三加四等于七,五乘三,x大于五,正负五,约二十人"),
    ("3 - 2 = 1，-3，温度-5度", "三 减 二 等于 一,负三,温度负五度"),
    ("5月1日-7日，第1-3章", "五月一日到七日,第一到三章"),
    ("１２３，iPhone 15，GPT-4，5G", "一百二十三,iPhone 十五,GPT-四,五G"),
    ("他说 I have 3 cats and $5。", "他说 I have three cats and five dollars。"),
    ("见https://a.com/b2。", "见H T T P S colon slash slash A dot com slash B two。"),
)


@pytest.mark.parametrize(("text", "written"), READINGS)
def test_numbers_and_signs_are_written_out(text: str, written: str) -> None:
    pieces = [*chinese_pieces_of(text)]
    assert "".join(piece.words for piece in pieces) == written
    assert [piece.start for piece in pieces] == [0, *(piece.stop for piece in pieces[:-1])]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(st.sampled_from("0123456789.,:/-~–%$€¥℃年月日点个第 kmg+=<>×"), max_size=20))
def test_every_digit_and_sign_is_read_or_reported(reader: ChineseReader, text: str) -> None:
    reported = "".join(reader.check(text).unspoken)
    for piece in chinese_pieces_of(text):
        assert not any(map(str.isdecimal, piece.words))
        for sign in set(text[piece.start : piece.stop]) & set("%$€¥+<>×"):
            assert piece.is_changed or sign in reported, (piece, reported)


@pytest.mark.parametrize(("one", "other"), [("2024年", "2025年"), ("$5", "$6"), ("5%", "5‰")])
def test_what_differs_sounds_different(reader: ChineseReader, one: str, other: str) -> None:
    assert reader.pronounce(one) != reader.pronounce(other)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, 10**16 - 1))
def test_cardinals_are_those_of_cn2an(number: int) -> None:
    from cn2an import cn2an

    assert cn2an(cardinal(number).replace("两", "二"), "smart") == number
