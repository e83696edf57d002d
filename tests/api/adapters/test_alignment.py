"""Times of characters: all of the text, in order, within the audio, with the words they are of."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.api.adapters.alignment import Alignment, SpokenText, TimedText
from antiphon.contracts.types import AudioChunk, Ended, SpeechStream, WordTime

RATE_HZ = 1000


def words(*times: tuple[str, float, float]) -> tuple[WordTime, ...]:
    return tuple(WordTime(*each) for each in times)


async def _events(chunks: Sequence[tuple[float, tuple[WordTime, ...]]]) -> SpeechStream:
    for duration_s, told in chunks:
        samples = np.zeros(round(duration_s * RATE_HZ), np.float32)
        yield AudioChunk(samples, RATE_HZ, words=told)
    yield Ended("stop")


def aligned(spoken: SpokenText, *chunks: tuple[float, tuple[WordTime, ...]]) -> list[Alignment]:
    """Return what is told after each chunk, and at the end."""
    found = []
    for duration_s, words in chunks:
        samples = np.zeros(round(duration_s * RATE_HZ), np.float32)
        spoken.hear(AudioChunk(samples, RATE_HZ, words=words))
        found.append(spoken.take())
    found.append(spoken.finish())
    return [each for each in found if each is not None]


def written(found: list[Alignment]) -> list[TimedText]:
    return [each.written for each in found if each.written is not None]


def test_characters_share_the_time_of_their_word() -> None:
    (first,) = written(
        aligned(SpokenText("Hi, you!"), (2.0, words(("Hi,", 0.3, 0.6), ("you", 1.0, 1.6))))
    )
    assert first.characters == "Hi, you!"
    assert first.starts_s == pytest.approx((0.3, 0.4, 0.5, 0.6, 1.0, 1.15, 1.3, 1.45))
    assert first.ends_s == pytest.approx((0.4, 0.5, 0.6, 1.0, 1.15, 1.3, 1.45, 1.6))


def test_what_is_read_otherwise_gets_the_time_between() -> None:
    spoken = SpokenText("It costs $5, my friend.")
    told = words(
        *(("It", 0.0, 0.2), ("costs", 0.2, 0.5), ("five", 0.5, 0.8), ("dollars", 0.8, 1.2)),
        *(("my", 1.2, 1.3), ("friend.", 1.3, 1.8)),
    )
    (found,) = aligned(spoken, (2.0, told))
    assert found.written is not None
    assert found.read is not None
    assert found.written.characters == "It costs $5, my friend."
    assert found.read.characters == "It costs five dollars my friend."
    assert found.written.starts_s[8] == pytest.approx(0.5)
    assert found.written.starts_s[13] == pytest.approx(1.2)


def test_words_that_are_read_as_one_share_its_time() -> None:
    spoken = SpokenText("Pay $5 million.")
    said = words(("Pay", 0.0, 0.4), ("$5 million.", 0.5, 1.6))
    pieces = written(aligned(spoken, (2.0, said)))
    characters = "".join(piece.characters for piece in pieces)
    starts = [start for piece in pieces for start in piece.starts_s]
    assert characters == "Pay $5 million."
    assert starts[characters.index("$")] == pytest.approx(0.5)
    assert starts[characters.index("m")] == pytest.approx(0.8)


def test_a_text_that_grows_is_told_piece_by_piece() -> None:
    spoken = SpokenText()
    spoken.add("One two. ")
    spoken.add("Three")
    found = aligned(
        spoken,
        (1.0, words(("One", 0.1, 0.4), ("two.", 0.5, 0.9))),
        (0.5, ()),
        (1.0, words(("Three", 1.6, 2.0))),
    )
    first, second = written(found)
    assert (first.characters, second.characters) == ("One two.", " Three")
    assert second.origin_s == first.ends_s[-1] == pytest.approx(0.9)
    told = second.since_the_one_before()
    assert told["charStartTimesMs"][:2] == [0, 700]
    assert told["charStartTimesMs"][-1] + told["charDurationsMs"][-1] == 1100


def test_without_words_nothing_is_told() -> None:
    assert aligned(SpokenText("Hello there."), (1.0, ())) == []


def test_far_words_are_found_behind_much_that_is_not_read() -> None:
    text = "你好 " * 300 + "end"
    found = written(
        aligned(
            SpokenText(text),
            (1.0, words(*((f"x{n}", 0.0, 0.1) for n in range(100)))),
            (1.0, words(("end", 1.0, 1.5))),
        )
    )
    assert "".join(each.characters for each in found) == text
    assert found[-1].ends_s[-1] == pytest.approx(1.5)


TOKENS = st.sampled_from(["a", "b", "Hello", "hello,", "$5", "five", "你好", "—", "[pause:1s]"])


@given(st.lists(TOKENS, max_size=20), st.lists(TOKENS, min_size=1, max_size=20), st.data())
def test_all_characters_come_once_in_order_of_time(
    text: list[str], read: list[str], data: st.DataObject
) -> None:
    duration_s = len(read) * 0.1
    times = words(*((word, n * 0.1, n * 0.1 + 0.08) for n, word in enumerate(read)))
    border = data.draw(st.integers(0, len(times)))
    found = aligned(
        SpokenText(" ".join(text)),
        (duration_s / 2, times[:border]),
        (duration_s / 2, times[border:]),
    )
    pieces = written(found)
    assert "".join(each.characters for each in pieces) == " ".join(text)
    assert "".join(each.read.characters for each in found if each.read) == " ".join(read)
    starts = [each for piece in pieces for each in piece.starts_s]
    ends = [each for piece in pieces for each in piece.ends_s]
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    assert all(0 <= start <= end + 1e-9 for start, end in zip(starts, ends, strict=True))
    assert all(end <= duration_s + 1e-9 for end in ends)
