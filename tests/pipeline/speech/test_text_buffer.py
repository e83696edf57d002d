"""Streams that run ahead of their reader stop after so many items, whatever the reader does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.speech.synthesis import one_ahead
from antiphon.pipeline.speech.text_buffer import MAX_ITEMS_AHEAD, Prefetcher

MOST_AHEAD = MAX_ITEMS_AHEAD + 1
"""Those that are ready, and one that waits for room."""
TURNS = 4 * MOST_AHEAD


async def _counted(pulled: list[int], num_items: int) -> AsyncGenerator[int, None]:
    for number in range(num_items):
        pulled.append(number)
        yield number


async def _settle() -> None:
    """Let all tasks run as far as they can."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


@given(num_items=st.integers(0, 100), num_read=st.integers(0, 100))
def test_a_stream_runs_so_many_items_ahead(num_items: int, num_read: int) -> None:
    async def check() -> None:
        pulled: list[int] = []
        ahead = Prefetcher(_counted(pulled, num_items))
        await _settle()
        assert len(pulled) == min(num_items, MOST_AHEAD)
        async with aclosing(ahead.items()) as items:
            for number in range(min(num_read, num_items)):
                assert await anext(items) == number
            await _settle()
            assert len(pulled) == min(num_items, num_read + MOST_AHEAD)
        await ahead.close()

    asyncio.run(check())


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_of_many_streams_two_are_under_way(sizes: list[int]) -> None:
    async def check() -> None:
        pulled: list[int] = []
        num_read = 0
        streams = one_ahead([partial(_counted, pulled, size) for size in sizes])
        async with aclosing(streams):
            async for _ in streams:
                num_read += 1
                await _settle()
                assert len(pulled) <= num_read + 2 * MOST_AHEAD
        assert num_read == len(pulled) == sum(sizes)

    asyncio.run(check())
