"""Times of characters: all of the text, in order, within the audio, with the words they are of."""

from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.api.adapters.alignment import Alignment, SpokenText, TimedText
from antiphon.contracts.types import AudioChunk, WordTime

RATE_HZ = 1000
Words: TypeAlias = tuple[WordTime, ...]


def words(text: str, *times: tuple[str, float, float] | tuple[str, float, float, str]) -> Words:
    """Return words of a text in its order; the last member is what is read."""
    found, place = list[WordTime](), 0
    for word, start_s, end_s, *read in times:
        place = text.index(word, place)
        found.append(WordTime(word, start_s, end_s, place, read[0] if read else word))
        place += len(word)
    return tuple(found)


def aligned(spoken: SpokenText, *chunks: tuple[float, Words]) -> list[Alignment]:
    """Return what is told after each chunk, and at the end."""
    found = []
    for duration_s, words in chunks:
        samples = np.zeros(round(duration_s * RATE_HZ), np.float32)
        spoken.add_chunk(AudioChunk(samples, RATE_HZ, words=words))
        found.append(spoken.take())
    found.append(spoken.finish())
    return [each for each in found if each is not None]


def written(found: list[Alignment]) -> list[TimedText]:
    return [each.written for each in found if each.written is not None]


def test_characters_share_the_time_of_their_word() -> None:
    text = "Hi, you!"
    (first,) = written(
        aligned(SpokenText(text), (2.0, words(text, ("Hi,", 0.3, 0.6), ("you!", 1.0, 1.6))))
    )
    assert first.characters == "Hi, you!"
    assert first.starts_s == pytest.approx((0.3, 0.4, 0.5, 0.6, 1.0, 1.15, 1.3, 1.45))
    assert first.ends_s == pytest.approx((0.4, 0.5, 0.6, 1.0, 1.15, 1.3, 1.45, 1.6))


def test_what_is_read_otherwise_is_beside_what_is_written() -> None:
    text = "It costs $5, my friend."
    told = words(
        text,
        *(("It", 0.0, 0.2), ("costs", 0.2, 0.5), ("$5,", 0.5, 1.2, "five dollars,")),
        *(("my", 1.2, 1.3), ("friend.", 1.3, 1.8)),
    )
    (found,) = aligned(SpokenText(text), (2.0, told))
    assert found.written is not None
    assert found.read is not None
    assert found.written.characters == text
    assert found.read.characters == "It costs five dollars, my friend."
    assert found.written.starts_s[9] == pytest.approx(0.5)
    assert found.written.ends_s[11] == pytest.approx(1.2)


def test_of_equal_words_each_has_its_own_place() -> None:
    text = "the 你好 the other the"
    told = words(text, ("the", 0.0, 0.5), ("the", 1.0, 1.2), ("other", 1.2, 1.5), ("the", 1.5, 2))
    (found,) = written(aligned(SpokenText(text), (2.0, told)))
    assert found.characters == text
    assert found.starts_s[text.index("你")] == pytest.approx(0.625)
    assert found.starts_s[text.rindex("the")] == pytest.approx(1.5)


def test_characters_are_code_points() -> None:
    text = "e\u0301 👍🏽 𝔞"
    told = words(text, ("e\u0301", 0.0, 0.4), ("𝔞", 0.5, 1.0))
    (found,) = aligned(SpokenText(text), (1.0, told))
    assert found.written is not None
    assert found.written.in_seconds()["characters"] == list(text)


def test_a_text_that_grows_is_told_piece_by_piece() -> None:
    spoken, text = SpokenText(), "One two. Three"
    spoken.add("One two. ")
    spoken.add("Three")
    one, two, three = words(text, ("One", 0.1, 0.4), ("two.", 0.5, 0.9), ("Three", 1.6, 2.0))
    first, second = written(aligned(spoken, (1.0, (one, two)), (0.5, ()), (1.0, (three,))))
    assert (first.characters, second.characters) == ("One two.", " Three")
    assert second.origin_s == first.ends_s[-1] == pytest.approx(0.9)
    told = second.since_the_one_before()
    assert told["charStartTimesMs"][:2] == [0, 700]
    assert told["charStartTimesMs"][-1] + told["charDurationsMs"][-1] == 1100


def test_without_words_nothing_is_told() -> None:
    assert aligned(SpokenText("Hello there."), (1.0, ())) == []


TOKENS = st.sampled_from(["a", "b", "Hello", "hello,", "$5", "five", "你好", "—", "[pause:1s]"])


@given(st.lists(st.tuples(TOKENS, st.booleans()), min_size=1, max_size=20), st.data())
def test_all_characters_come_once_in_order_of_time(
    tokens: list[tuple[str, bool]], data: st.DataObject
) -> None:
    text = " ".join(token for token, _ in tokens)
    read, place = list[WordTime](), 0
    for token, is_read in tokens:
        if is_read:
            start_s = len(read) * 0.1
            read.append(WordTime(token, start_s, start_s + 0.08, place, token))
        place += len(token) + 1
    duration_s = max(1, len(read)) * 0.1
    border = data.draw(st.integers(0, len(read)))
    found = aligned(
        SpokenText(text),
        (duration_s / 2, tuple(read[:border])),
        (duration_s / 2, tuple(read[border:])),
    )
    pieces = written(found)
    assert "".join(each.characters for each in pieces) == (text if read else "")
    expected = " ".join(each.word for each in read)
    assert "".join(each.read.characters for each in found if each.read) == expected
    starts = [each for piece in pieces for each in piece.starts_s]
    ends = [each for piece in pieces for each in piece.ends_s]
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    assert all(0 <= start <= end + 1e-9 for start, end in zip(starts, ends, strict=True))
    assert all(end <= duration_s + 1e-9 for end in ends)
