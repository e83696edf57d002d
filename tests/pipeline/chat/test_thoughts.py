"""Thoughts and answer are parted alike however the text is cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.pipeline.chat.thoughts import ThoughtSplit

PIECES = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "</", "think", ">", " ", "\n", "word", "<th"]),
    max_size=12,
)


def parted(pieces: list[str] | str, *, in_thought: bool = False) -> tuple[str, str]:
    split = ThoughtSplit(in_thought=in_thought)
    found = [*(split.push(piece) for piece in pieces), split.flush()]
    return "".join(said for said, _ in found), "".join(thought for _, thought in found)


@pytest.mark.parametrize(
    ("written", "in_thought", "wanted"),
    [
        ("<think>\nHm.\n</think>\n\nYes.\n", False, ("Yes.\n", "Hm.")),
        ("\n<think></think>Yes", False, ("Yes", "")),
        ("Hm </think> Yes", True, ("Yes", "Hm")),
        ("<think>never done ", False, ("", "never done")),
        (" Yes <think>no</think>", False, (" Yes <think>no</think>", "")),
        ("<thin ice", False, ("<thin ice", "")),
        ("<think>a </thin b</think>c", False, ("c", "a </thin b")),
        ("", True, ("", "")),
    ],
)
def test_what_stands_first_between_the_marks_is_thought(
    written: str, in_thought: bool, wanted: tuple[str, str]
) -> None:
    assert parted([written], in_thought=in_thought) == wanted
    assert parted(written, in_thought=in_thought) == wanted, "letter by letter"


@settings(max_examples=150, deadline=None)
@given(PIECES, st.booleans())
def test_the_same_is_thought_however_it_is_cut(pieces: list[str], in_thought: bool) -> None:
    text = "".join(pieces)
    whole = parted([text], in_thought=in_thought)
    assert parted(pieces, in_thought=in_thought) == whole
    assert parted(text, in_thought=in_thought) == whole
