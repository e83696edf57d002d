"""Tags part a text into turns, the same in whatever pieces it arrives."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from antiphon.api.voice_tags import Speaker, TagSplitter, split_turns
from antiphon.errors import InvalidRequestError

PARTS = st.sampled_from(
    ["a ", "[rate:2]", "[voice:x]", "[pause:1s] ", " ", r"\[rate:2]", "[word]", "[rate"]
)


@given(st.lists(PARTS, max_size=12))
def test_no_letter_and_no_pause_is_lost(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        turns, offsets = split_turns(text)
    except InvalidRequestError:
        return
    plain = "".join(part for part in parts if part not in ("[rate:2]", "[voice:x]"))
    said = "".join("".join(text for _, text in turns).split())
    assert said == "".join(plain.replace("\\", "").split())
    for place, character in enumerate("".join(text for _, text in turns)):
        start, stop = offsets.origin(place, place + 1)
        assert text[start:stop] == character
    if len(turns) > 1:
        assert all(text.replace("[pause:1s]", "").strip() for _, text in turns)


@given(st.lists(PARTS, max_size=12), st.lists(st.integers(0, 80)))
def test_a_text_has_the_same_turns_however_it_is_cut(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    try:
        expected, _ = split_turns(text)
    except InvalidRequestError:
        return
    splitter, turns = TagSplitter(), list[tuple[Speaker, str]]()
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    for number, piece in enumerate([*pieces, ""]):
        for item in splitter.push(piece, is_last=number == len(pieces)):
            if isinstance(item, Speaker):
                turns.append((item, ""))
            else:
                turns[-1] = turns[-1][0], turns[-1][1] + item
    assert [(who, "".join(said.split())) for who, said in turns] == [
        (who, "".join(said.split())) for who, said in expected
    ]
