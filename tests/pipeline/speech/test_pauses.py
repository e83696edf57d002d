"""Pause tags: whatever the text is, they are found or refused, and nothing else is lost."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.pauses import (
    MAX_NUM_PAUSES,
    MAX_PAUSE_S,
    MAX_TOTAL_PAUSE_S,
    Pause,
    PauseSplitter,
    split_pauses,
)

FRAGMENTS = ("[pause:1s]", "\\", "[", "]", "[pause:", "500ms", "1.5s", " ", "word", "。", "\n", "s")
TEXTS = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(FRAGMENTS)).map("".join))


@given(TEXTS)
@example("\\[pause:[pause:0s]]")
def test_nothing_of_a_text_is_lost(text: str) -> None:
    try:
        pieces = split_pauses(text)
    except InvalidRequestError:
        assert "[pause:" in text.lower()
        return
    pauses = [piece for piece in pieces if isinstance(piece, Pause)]
    said = "".join(piece for piece in pieces if isinstance(piece, str))
    tag = re.compile(r"(\\)?(\[pause:[^\[\]\n]*\])", re.IGNORECASE)
    assert said == tag.sub(lambda found: found[2] if found[1] else "", text)
    assert all(0 <= pause.duration_s <= MAX_PAUSE_S for pause in pauses)
    assert [type(piece) for piece in pieces[::2]] == [str] * (len(pauses) + 1)


@pytest.mark.parametrize(
    ("tag", "duration_s"),
    [("[pause:1.5s]", 1.5), ("[pause:500ms]", 0.5), ("[PAUSE: 2 S ]", 2.0), ("[pause:0s]", 0.0)],
)
def test_a_tag_is_a_pause(tag: str, duration_s: float) -> None:
    assert split_pauses(f"One. {tag} Two.") == ["One. ", Pause(duration_s), " Two."]


def test_a_backslash_makes_text_of_a_tag() -> None:
    assert split_pauses(r"Say \[pause:1s] now") == ["Say [pause:1s] now"]


@pytest.mark.parametrize(
    "text", ["a [pause:1] b", "a [pause:] b", "a [pause:-1s] b", "a [pause:11s] b", "a[pause:1s]b"]
)
def test_what_is_no_pause_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        split_pauses(text)


@pytest.mark.parametrize("text", ["你好[pause:1s]世界", "one,[pause:1s]two", "one [pause:1s]two"])
def test_a_pause_may_stand_between_words(text: str) -> None:
    assert len(split_pauses(text)) == 3


def test_pauses_are_bounded() -> None:
    split_pauses("[pause:0.5s]" * MAX_NUM_PAUSES)
    with pytest.raises(InvalidRequestError, match="more than"):
        split_pauses("[pause:0.5s]" * (MAX_NUM_PAUSES + 1))


def test_all_pauses_together_are_bounded() -> None:
    num_pauses = round(MAX_TOTAL_PAUSE_S / MAX_PAUSE_S)
    longest = f"[pause:{MAX_PAUSE_S:g}s]"
    assert len(split_pauses(longest * num_pauses)) == 2 * num_pauses + 1
    with pytest.raises(InvalidRequestError, match="600 s together"):
        split_pauses(f"One. {longest * num_pauses} Two. [pause:1ms]")


@pytest.mark.parametrize("tag", ["[pause:1]", "[pause:11s]", "[pause:]"])
def test_what_is_no_pause_is_text_of_an_answer(tag: str) -> None:
    splitter = PauseSplitter(is_answer=True)
    text = f"One {tag} two"
    pieces = [piece for each in text for piece in splitter.push(each)]
    pieces += splitter.push(" [pause:1s] three", is_last=True)
    assert "".join(str(each) for each in pieces[:-2]).strip() == text
    assert pieces[-2:] == [Pause(1.0), " three"]
