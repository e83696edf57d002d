"""Text that comes before its request is kept; text after its end is dropped; both bounded."""

from antiphon.contracts.prompt import Piece
from antiphon.fabric.wire.text_buffer import PendingText

KEY = "stage", "req"


def piece(number: int) -> Piece:
    return Piece(data=number, num_frames_allowed=None)


def test_pieces_are_kept_in_order_for_their_request() -> None:
    texts = PendingText()
    for number in range(3):
        texts.add(KEY, piece(number))
        texts.add(("stage", "other"), piece(-number))
    assert [each.data for each in texts.take(KEY)] == [0, 1, 2]
    assert texts.take(KEY) == []
    assert len(texts) == 3


def test_what_comes_after_the_end_is_dropped_until_it_is_opened_again() -> None:
    texts = PendingText()
    texts.add(KEY, piece(1))
    texts.end(KEY)
    texts.add(KEY, piece(2))
    assert len(texts) == 0
    assert texts.take(KEY) == []
    texts.add(KEY, piece(3))
    assert len(texts.take(KEY)) == 1


def test_it_is_kept_for_a_while_only() -> None:
    now_s = 0.0
    texts = PendingText(lambda: now_s)
    texts.add(KEY, piece(1))
    now_s = 31.0
    texts.add(("stage", "other"), piece(2))
    assert len(texts) == 1
    assert texts.take(KEY) == []


def test_it_is_bounded() -> None:
    texts = PendingText()
    for number in range(10_000):
        texts.add(("stage", f"{number}"), piece(number))
        texts.end(("stage", f"ended {number}"))
    assert len(texts) <= 4096
    assert len(texts._ended) <= 4096
    for number in range(10_000):
        texts.add(KEY, piece(number))
    assert len(texts) <= 4096
