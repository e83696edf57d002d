"""Streams that run ahead of their reader stop after so many items, whatever the reader does."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.speech.text_plan import MAX_ITEMS_AHEAD, Prefetcher, TextBuffer

MOST_AHEAD = MAX_ITEMS_AHEAD + 1
"""Those that are ready, and one that waits for room."""
TURNS = 4 * MOST_AHEAD


class Counter:
    def __init__(self, num_items: int) -> None:
        self.num_pulled = 0
        self.is_closed = False
        self._num_items = num_items

    async def next(self) -> int | None:
        if self.num_pulled == self._num_items:
            return None
        self.num_pulled += 1
        return self.num_pulled

    async def close(self) -> None:
        self.is_closed = True


async def _settle() -> None:
    """Let all tasks run as far as they can."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


@given(num_items=st.integers(0, 100), num_read=st.integers(0, 100))
async def test_a_stream_runs_so_many_items_ahead(num_items: int, num_read: int) -> None:
    source = Counter(num_items)
    ahead = Prefetcher(source)
    await _settle()
    assert source.num_pulled == min(num_items, MOST_AHEAD)
    for number in range(min(num_read, num_items)):
        assert await ahead.next() == number + 1
    await _settle()
    assert source.num_pulled == min(num_items, num_read + MOST_AHEAD)
    if num_read >= num_items:
        assert await ahead.next() is None
    await ahead.close()
    assert source.is_closed


@given(st.lists(st.text(max_size=5), max_size=8), st.integers(0, 8))
async def test_a_buffer_gives_all_that_was_pushed(pieces: list[str], num_first: int) -> None:
    buffer = TextBuffer()
    for piece in pieces[:num_first]:
        buffer.push(piece)
    first = await buffer.take() if buffer.has_unread else ""
    assert first == buffer.taken == "".join(pieces[:num_first])
    for piece in pieces[num_first:]:
        buffer.push(piece)
    buffer.close()
    rest = "".join(pieces[num_first:])
    assert await buffer.take() == (rest or None)
    assert await buffer.take() is None
    assert await buffer.whole() == "".join(pieces)
