"""Runs a stream beside the task that feeds it, so that what fails the task fails the stream."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from antiphon.concurrency import cancel_and_wait

T = TypeVar("T")


async def fed(
    items: AsyncGenerator[T, None], feed: Callable[[], Coroutine[Any, Any, None]]
) -> AsyncGenerator[T, None]:
    """Yield ``items``; ``feed()`` begins after the first of them has been asked for.

    Raises:
        Exception: what either side raises.
    """
    async with aclosing(items):
        # Tasks begin in the order of their creation: what is fed is there to be fed.
        following = asyncio.ensure_future(anext(items, None))
        feeder = asyncio.create_task(feed())
        try:
            while (item := await _beside(feeder, following)) is not None:
                yield item
                following = asyncio.ensure_future(anext(items, None))
        finally:
            await cancel_and_wait(following)
            await cancel_and_wait(feeder)


async def _beside(feeder: "asyncio.Task[None]", following: "asyncio.Future[T]") -> T:
    """Return what follows, unless the feeder fails before."""
    if not feeder.done():
        await asyncio.wait((following, feeder), return_when=asyncio.FIRST_COMPLETED)
    if feeder.done() and not following.done():
        feeder.result()
    return await following
