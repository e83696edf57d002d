"""Words are ranges of the text as sent, whatever is read for them and however it arrives."""

import re
from collections.abc import Callable
from functools import cache
from itertools import count, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon.contracts.types import WordTime
from antiphon.errors import InvalidRequestError
from antiphon.families.hibari.prompt import reader as hibari_reader
from antiphon.pipeline.speech.pronunciation import Pronunciations
from antiphon.pipeline.speech.segmenter import Lengths, PackingSegmenter, SentenceSegmenter
from antiphon.pipeline.speech.text_plan import Segment, TextPlanner
from antiphon.text.base import UNSPOKEN_PHONEMES, PhonemeReader
from antiphon.text.chinese import ChineseReader
from antiphon.text.english import EnglishReader
from antiphon.text.normalizer import Normalizer
from antiphon.text.offset_map import OffsetMap
from tests.families.kokoro.random_vocabulary import VOCABULARY
from tests.text.test_reading_suite import CASES

WORDS = Pronunciations(
    {"SQL": "sequel", "New York": "the Big Apple", "C++": "see plus", "x": "ex why", "no": "nay"}
)
PARTS = (
    *(
        "the",
        "the",
        "other",
        "no",
        "No. 5",
        "No.",
        "&amp;",
        "&nbsp;",
        "&lt;b&gt;",
        "R&amp;D",
        "&#8217;",
    ),
    *(
        "😀",
        "👨\u200d👩\u200d👧",
        "**bold**",
        "`code`",
        "[link](http://a.b/c)",
        "# Title",
        "<b>tag</b>",
    ),
    *(
        "שלום",
        "مرحبا",
        "\u202eabc\u202c",
        "e\u0301te\u0301",
        "𝔃𝓸𝓻𝓫",
        "𝟛",
        "ﬁne",
        "\u200b",
        "\ufeff",
    ),
    *("SQL", "SQL's", "New York", "C++", "x", "1x", "-$5", "May 5, 2024", "3.5%", "(555) 123-4567"),
    *(
        "[pause:1s]",
        " [pause:20ms] ",
        "\\[pause:1s]",
        "[pause:",
        "e.g.",
        "U.S.",
        "Dr. Wu",
        "5kg",
        "½",
    ),
    *(
        "你好",
        "2024年5月",
        "3个",
        "$5万",
        "50%",
        "說",
        "が",
        "Привет",
        ". ",
        "! ",
        "\n\n",
        ", ",
        "a\u0300\u0301",
    ),
)
TEXTS = st.one_of(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=14).map(" ".join),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=14).map("".join),
    st.lists(st.sampled_from(sorted({text for _, text, _ in CASES})), max_size=4).map(" ".join),
    st.text(st.sampled_from("aAbx15.,$%-–/' \n()*[]&;é\u0301你好😀"), max_size=40),
)
SEGMENTERS: tuple[Callable[[], PackingSegmenter | SentenceSegmenter], ...] = (
    lambda: PackingSegmenter(400),
    lambda: PackingSegmenter(12),
    lambda: SentenceSegmenter(Lengths(max=40, min_sentence=8, min_clause=16)),
)


@cache
def english_reader() -> EnglishReader:
    return hibari_reader(british=False)


@cache
def chinese_reader() -> ChineseReader:
    pytest.importorskip("misaki", reason="misaki is not installed: scripts/setup chinese")
    english = EnglishReader(VOCABULARY, british=False, max_phonemes=510)
    return ChineseReader(VOCABULARY, english, max_phonemes=510)


def placed_words(
    planner: TextPlanner, text: str, cuts: list[int], reader: PhonemeReader
) -> list[WordTime]:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    items = [item for start, stop in pairwise(places) for item in planner.push(text[start:stop])]
    items += planner.finish()
    found, seconds = list[WordTime](), count()
    for segment in (item for item in items if isinstance(item, Segment)):
        for sentence in reader.read_words(segment.text.written):
            words = [word.timed(now := next(seconds), now + 1) for word in sentence]
            found += planner.placed(segment, words)
    return found


def check_words(text: str, words: list[WordTime]) -> None:
    last = 0
    for word in words:
        assert last <= word.offset < word.stop <= len(text)
        assert text[word.offset : word.stop] == word.word
        assert word.word == word.word.strip()
        last = word.stop
    for before, after in pairwise(words):
        assert before.start_s < before.end_s <= after.start_s


@pytest.mark.parametrize("reader", [english_reader, chinese_reader])
@settings(max_examples=150, deadline=None, derandomize=True)
@given(TEXTS, st.lists(st.integers(0, 90), max_size=4), st.booleans(), st.sampled_from(SEGMENTERS))
@example("the then the. The other, no SQL x.", [3, 5], True, SEGMENTERS[0])
@example("See report.pdf C:\\Windows\\System32 now", [], True, SEGMENTERS[1])
def test_words_are_ranges_of_the_text_in_order(
    reader: Callable[[], PhonemeReader],
    text: str,
    cuts: list[int],
    normalize: bool,
    segmenter: Callable[[], PackingSegmenter | SentenceSegmenter],
) -> None:
    planner = TextPlanner(
        segmenter(), WORDS, normalizer=Normalizer if normalize else None, strips=True
    )
    try:
        words = placed_words(planner, text, cuts, reader())
    except InvalidRequestError:
        return
    check_words(text, words)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(TEXTS)
def test_everything_that_is_spoken_is_part_of_a_word(text: str) -> None:
    for read in (english_reader, chinese_reader):
        reader = read()
        sentences, words = reader.read(text), reader.read_words(text)
        symbols = {number: symbol for symbol, number in VOCABULARY.items()}
        for ids, placed in zip(sentences, words, strict=True):
            covered = {place for word in placed for place in range(word.start, word.stop)}
            for place, number in enumerate(ids):
                assert place in covered or symbols[number] in UNSPOKEN_PHONEMES, (text, place)
            spans = [(word.offset, word.offset + len(word.word)) for word in placed]
            assert all(first[1] <= second[0] for first, second in pairwise(spans)), spans
            assert all(
                text[slice(*span)] == word.word for span, word in zip(spans, placed, strict=True)
            )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(["the", "then", "other", "5", "$5", "no", "x1", "(a)"]), max_size=20)
)
def test_each_token_is_a_word(parts: list[str]) -> None:
    text = " ".join(parts)
    spoken = [word for sentence in english_reader().read_words(text) for word in sentence]
    found = {place for word in spoken for place in range(word.offset, word.offset + len(word.word))}
    for token in re.finditer(r"\w+", text):
        assert {*range(*token.span())} <= found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a the other the then", [("a", 0), ("the", 2), ("other", 6), ("the", 12), ("then", 16)]),
        ("x is 5&nbsp;kg", [("x", 0), ("is", 2), ("5&nbsp;kg", 5)]),
        ("I😀 am 😀 here", [("I😀", 0), ("am", 3), ("here", 8)]),
        ("We know **SQL** [pause:1s] now", [("We", 0), ("know", 3), ("**SQL**", 8), ("now", 27)]),
        ("In New York, no.", [("In", 0), ("New York,", 3), ("no.", 13)]),
        (r"Say \[pause:1s] \[x", [("Say", 0), ("[pause:1s]", 5), (r"\[x", 16)]),
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_words_as_they_were_sent(text: str, words: list[tuple[str, int]], normalize: bool) -> None:
    normalizer = Normalizer if normalize else None
    planner = TextPlanner(PackingSegmenter(400), WORDS, normalizer=normalizer)
    found = placed_words(planner, text, [], english_reader())
    assert [(word.word, word.offset) for word in found] == words


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=30))
def test_an_offset_map_finds_where_runs_came_from(runs: list[tuple[int, int, bool]]) -> None:
    offsets, origins = OffsetMap(), list[tuple[int, int]]()
    given_length = 0
    for num_given, num_made, is_copied in runs:
        if is_copied:
            offsets.copy(num_given)
            origins += [
                (place, place + 1) for place in range(given_length, given_length + num_given)
            ]
        else:
            offsets.exchange(num_given, num_made)
            origins += [(given_length, given_length + num_given)] * num_made
        given_length += num_given
    for start in range(len(origins)):
        for stop in range(start + 1, len(origins) + 1):
            assert offsets.origin(start, stop) == (origins[start][0], origins[stop - 1][1])
