"""Several streams of one request, which is refused as a whole or not at all."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar, cast

from antiphon.concurrency import merged
from antiphon.contracts.prompt import Admitted

T = TypeVar("T")


async def together(
    streams: Sequence[AsyncGenerator[T | Admitted, None]],
) -> AsyncGenerator[tuple[int, T], None]:
    """Yield the items of streams as they come, each with its stream's number; closes all of them.

    There is none before the last stream is admitted, that is, before it has yielded anything: an
    answer that has begun cannot be refused any more. The first stream that fails ends all.
    """
    waiting = set(range(len(streams)))
    held: list[tuple[int, T]] = []
    async with aclosing(merged(streams)) as items:
        async for number, item in items:
            waiting.discard(number)
            if not isinstance(item, Admitted):
                held.append((number, item))
            while held and not waiting:
                yield held.pop(0)


def alone(stream: AsyncGenerator[T | Admitted, None]) -> AsyncGenerator[T, None]:
    """Return a stream that does not report its admission, typed so."""
    return cast("AsyncGenerator[T, None]", stream)
