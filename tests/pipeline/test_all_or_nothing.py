"""Several streams of one request: nothing comes before the last one is admitted."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon.contracts.prompt import Admitted
from antiphon.errors import OverloadedError
from antiphon.pipeline.all_or_nothing import together


class Stream:
    """Yields its items; then it ends, or fails."""

    def __init__(self, *items: str | Admitted, error: Exception | None = None) -> None:
        self.may_begin, self.is_closed = asyncio.Event(), False
        self._items, self._error = items, error

    async def items(self) -> AsyncGenerator[str | Admitted, None]:
        try:
            await self.may_begin.wait()
            for item in self._items:
                yield item
            if self._error is not None:
                raise self._error
        finally:
            self.is_closed = True


def opened(*streams: Stream) -> AsyncGenerator[tuple[int, str], None]:
    return together([each.items() for each in streams])


async def settled(waiting: "asyncio.Future[Any]") -> bool:
    await asyncio.wait([waiting], timeout=0.05)
    return waiting.done()


@pytest.mark.parametrize("last", ["c", Admitted()])
async def test_items_are_held_until_each_stream_has_told_something(last: str | Admitted) -> None:
    first, second = Stream(Admitted(), "a", "b"), Stream(last)
    first.may_begin.set()
    items = opened(first, second)
    waiting = asyncio.ensure_future(anext(items))
    assert not await settled(waiting)
    second.may_begin.set()
    found = [await waiting, *[item async for item in items]]
    assert [item for number, item in found if number == 0] == ["a", "b"]
    told = [] if isinstance(last, Admitted) else [last]
    assert [item for number, item in found if number == 1] == told


async def test_what_is_refused_is_refused_before_anything_came_and_all_are_closed() -> None:
    begun, refused = Stream("a", "b"), Stream(error=OverloadedError("full", retry_after_s=1.0))
    begun.may_begin.set()
    waiting = asyncio.ensure_future(anext(opened(begun, refused)))
    assert not await settled(waiting)
    refused.may_begin.set()
    with pytest.raises(OverloadedError):
        await waiting
    assert begun.is_closed
    assert refused.is_closed


async def test_whoever_leaves_closes_all() -> None:
    streams = [Stream(Admitted(), "a"), Stream("b")]
    for each in streams:
        each.may_begin.set()
    items = opened(*streams)
    await anext(items)
    await items.aclose()
    assert all(each.is_closed for each in streams)
