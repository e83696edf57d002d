"""What a stage reads of the one before it: frames as a whole, and nothing after an abort."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.picture_types import Progress
from antiphon.contracts.prompt import Admitted
from antiphon.contracts.types import Ended, FrameReady, Latents
from antiphon.stages.base import StageItem
from antiphon.stages.upstream import PromptStage, consumed, reserved


class Upstream:
    """Yields items, then waits for ever; tells whether it was closed."""

    def __init__(self, items: Sequence[StageItem]) -> None:
        self.is_closed = False
        self._items = items

    async def stream(self) -> AsyncGenerator[StageItem, None]:
        try:
            for item in self._items:
                yield item
            await asyncio.Event().wait()
        finally:
            self.is_closed = True


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            [Progress(1, 2), Latents(1, 0), Latents(2), Ended("stop")],
            [Progress(1, 2), Latents(1, 0), Latents(2), Ended("stop")],
        ),
        (
            [FrameReady(3), FrameReady(4), Ended("length")],
            [Latents((3, 4)), Ended("length")],
        ),
        ([FrameReady(3), Ended("abort")], [Ended("abort")]),
        ([Ended("stop")], [Ended("stop")]),
    ],
)
async def test_frames_are_one_item_and_others_come_as_they_are(
    given: list[StageItem], expected: list[StageItem]
) -> None:
    upstream = Upstream(given)
    items = [item async for item in consumed(upstream.stream(), asyncio.Event())]
    assert items == expected
    assert upstream.is_closed


async def test_an_abort_ends_what_waits_and_closes_the_stage_before() -> None:
    stage, upstream = PromptStage(), Upstream([Progress(1, 9)])
    with stage._opened("r") as aborted:
        items = consumed(upstream.stream(), aborted)
        assert await anext(items) == Progress(1, 9)
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        stage.abort("another")
        stage.abort("r")
        assert await waiting == Ended("abort")
        assert upstream.is_closed
        assert [item async for item in items] == []
    stage.abort("r")  # it is not open any more


async def test_what_the_stage_before_raises_is_raised() -> None:
    async def failing() -> AsyncGenerator[StageItem, None]:
        yield Progress(1, 2)
        raise RuntimeError("a bug")

    items = consumed(failing(), asyncio.Event())
    await anext(items)
    with pytest.raises(RuntimeError, match="a bug"):
        await anext(items)


async def test_room_is_kept_at_both_stages_or_at_none() -> None:
    for given, last in (([Admitted()], Admitted()), ([], None)):
        before, own = Upstream([Admitted()]), Upstream(given)
        stream = reserved(own.stream(), before.stream())
        first = asyncio.ensure_future(anext(stream))
        await asyncio.wait([first], timeout=0.05)
        assert first.done() == (last is not None)
        assert not before.is_closed
        await cancel_and_wait(first)
        await stream.aclose()
        assert before.is_closed
        assert own.is_closed
