"""Splitting keeps every word, respects the limit, and prefers sentence ends."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.text import segment_seed, segments

texts = st.text(
    st.one_of(st.sampled_from(" .,!?;\n。，—'\""), st.characters(exclude_categories=["Cs", "Cc"])),
    max_size=400,
)


def squeezed(text: str) -> str:
    return "".join(text.split())


@given(texts, st.integers(1, 120))
def test_nothing_is_lost_and_nothing_is_too_long(text: str, limit: int) -> None:
    pieces = segments(text, limit)
    assert squeezed("".join(pieces)) == squeezed(text)
    assert all(0 < len(piece) <= limit for piece in pieces)
    assert all(piece == piece.strip() for piece in pieces)


def test_sentences_share_a_segment_while_they_fit() -> None:
    text = "One. Two. Dr. Smith has 3.5 cats! Three?"
    assert segments(text, 200) == [text]
    assert segments(text, 25) == ["One. Two.", "Dr. Smith has 3.5 cats!", "Three?"]


def test_a_long_sentence_is_cut_at_a_clause_then_at_a_space() -> None:
    assert segments("aaa bbb ccc, ddd eee", 14) == ["aaa bbb ccc,", "ddd eee"]
    assert segments("aaaa bbbb cccc", 10) == ["aaaa bbbb", "cccc"]
    assert segments("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]


def test_segment_seeds_differ_and_the_first_is_the_requests_own() -> None:
    seeds = [segment_seed(7, index) for index in range(100)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 100
    assert seeds == [segment_seed(7, index) for index in range(100)]
