"""However an answer is cut into tokens, its text ends before a stop string and holds characters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.chat_types import ChatRequest, TextDelta
from antiphon.contracts.family import LoadContext
from antiphon.contracts.token_frame import MAX_LOGPROBS, TokenFrame
from antiphon.families.toy.chat import ToyChatPrompter
from antiphon.pipeline.chat.answer_text import AnswerText, StopSearch

PIECES = st.lists(st.text("abc", max_size=4), max_size=8)


@given(PIECES, st.lists(st.text("abc", min_size=1, max_size=4), max_size=3))
def test_text_is_told_up_to_the_first_stop_string(pieces: list[str], stops: list[str]) -> None:
    search = StopSearch(stops)
    told = "".join(search.push(piece) for piece in pieces) + search.flush()
    # What has arrived by the piece in which one is found; a longer one might begin before it.
    whole = ""
    for piece in pieces:
        whole += piece
        if any(stop in whole for stop in stops):
            break
    ends = [at for stop in stops if (at := whole.find(stop)) >= 0]
    assert told == whole[: min(ends)] if ends else told == whole
    assert search.is_found == bool(ends)


@given(PIECES)
def test_only_what_may_be_a_stop_string_is_held(pieces: list[str]) -> None:
    search = StopSearch(["abc", "cc"])
    told = whole = ""
    for piece in pieces:
        told += search.push(piece)
        whole += piece
        if search.is_found:
            return
        held = whole[len(told) :]
        assert held == "" or any(stop.startswith(held) for stop in ("abc", "cc"))


def frame(token: int, logprob: float = -0.5) -> TokenFrame:
    top = np.full(MAX_LOGPROBS, -1), np.full(MAX_LOGPROBS, np.nan, np.float32)
    top[0][:2], top[1][:2] = (token, 3), (logprob, -np.inf)
    made = TokenFrame(token, logprob, *top)
    return TokenFrame.of(made.packed())


def deltas(content: bytes, stops: tuple[str, ...], num_logprobs: int | None) -> list[TextDelta]:
    request = ChatRequest((), stop=stops, num_logprobs=num_logprobs)
    text = AnswerText(ToyChatPrompter(LoadContext()), request)
    found = [text.push(frame(byte)) for byte in content]
    return [each for each in (*found, text.flush()) if each is not None]


def test_characters_come_whole() -> None:
    found = deltas("é😀".encode(), (), None)
    assert [(each.text, each.num_tokens) for each in found] == [("é", 2), ("😀", 4)]
    cut = deltas("é😀".encode()[:-1], (), None)
    assert [(each.text, each.num_tokens) for each in cut] == [
        ("é", 2),
        ("\N{REPLACEMENT CHARACTER}", 3),
    ]


@pytest.mark.parametrize("stops", [(), ("xyz",), ("😀",)])
def test_every_token_is_told_once_with_its_text(stops: tuple[str, ...]) -> None:
    content = "aé😀b".encode()
    found = deltas(content, stops, 2)
    told = b"".join(each.content for delta in found for each in delta.logprobs)
    expected = content if "😀" not in stops else "aé".encode()
    assert told == expected
    assert "".join(delta.text for delta in found).encode() == expected
    first = found[0].logprobs[0]
    assert first.logprob == pytest.approx(-0.5)
    assert [each.content for each in first.top] == [b"a", b"\x03"]
    assert first.top[1].logprob == -9999.0
