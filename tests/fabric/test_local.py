"""The local fabric counts streams, frees them in every way of leaving, and drains."""

import asyncio
from contextlib import aclosing

import pytest

from antiphon.fabric.base import StageRequest, StageStream
from antiphon.fabric.local import LocalFabric
from antiphon.models.base import Piece, Prompt
from antiphon.types import Ended, FrameReady

REQUEST = StageRequest("req", Prompt(data=None, num_tokens=1, seed=0))


class Counting:
    """Yields 0, 1, 2 ... or passes its upstream on; notes when it was closed."""

    failure = None
    stalled_s = 0.0

    def __init__(self, fail_at: int = -1) -> None:
        self.fail_at = fail_at
        self.num_left = 0

    async def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        try:
            if upstream is not None:
                async with aclosing(upstream):
                    async for item in upstream:
                        yield item
                return
            for number in range(5):
                if number == self.fail_at:
                    raise ValueError("broken on purpose")
                yield FrameReady(number)
            yield Ended("stop")
        finally:
            self.num_left += 1

    def append(self, request_id: str, piece: Piece) -> None:
        """Take no notice: it has no text."""

    async def close(self) -> None:
        self.num_left = -1


async def chained(first: Counting, second: Counting) -> tuple[LocalFabric, StageStream]:
    fabric = LocalFabric()
    await fabric.host("first", lambda: first)
    await fabric.host("second", lambda: second)
    return fabric, fabric.open("second", REQUEST, fabric.open("first", REQUEST, None))


def test_items_pass_through_and_draining_waits_for_the_end() -> None:
    async def main() -> None:
        fabric, stream = await chained(Counting(), Counting())
        assert await anext(stream) == FrameReady(0)
        assert fabric.num_open == 2
        draining = asyncio.create_task(fabric.drain())
        await asyncio.sleep(0.01)
        assert not draining.done()
        assert [item async for item in stream][-1] == Ended("stop")
        await draining
        assert fabric.num_open == 0

    asyncio.run(main())


def test_closing_midway_closes_every_stage() -> None:
    async def main() -> None:
        first, second = Counting(), Counting()
        fabric, stream = await chained(first, second)
        await anext(stream)
        await stream.aclose()
        assert (first.num_left, second.num_left, fabric.num_open) == (1, 1, 0)
        await fabric.close()
        assert (first.num_left, second.num_left) == (-1, -1)

    asyncio.run(main())


def test_a_failing_stage_fails_the_stream_and_frees_the_others() -> None:
    async def main() -> None:
        first, second = Counting(fail_at=2), Counting()
        fabric, stream = await chained(first, second)
        with pytest.raises(ValueError, match="broken"):
            [item async for item in stream]
        assert (first.num_left, second.num_left, fabric.num_open) == (1, 1, 0)

    asyncio.run(main())


def test_a_stream_that_was_never_begun_holds_nothing() -> None:
    async def main() -> None:
        fabric, stream = await chained(Counting(), Counting())
        await stream.aclose()
        assert fabric.num_open == 0

    asyncio.run(main())
