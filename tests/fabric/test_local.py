"""The local fabric counts streams, frees them in every way of leaving, and drains."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest

from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import Ended, FrameReady
from antiphon.fabric.base import Placement
from antiphon.fabric.local import LocalFabric
from antiphon.stages.base import Stage, StageHandle, StageRequest, StageStream
from antiphon.telemetry.stage_status import Publish, StageStatus, StatusPublisher

REQUEST = StageRequest("req", Prompt(data=None, num_tokens=1, seed=0))
TEXT_TO_AUDIO = (ItemKind.TEXT, ItemKind.AUDIO)
SPEC = StageSpec("stage", StageKind.GENERATOR, *TEXT_TO_AUDIO, Ref("nowhere:nothing"))


class Counting:
    """Yields 0, 1, 2 ... or passes its upstream on; notes when it was closed."""

    def __init__(self, fail_at: int = -1) -> None:
        self.fail_at = fail_at
        self.status = StatusPublisher()
        self.num_left = 0

    async def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        self.status.update(opened=1)
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
            self.status.update(opened=-1)

    def append(self, request_id: str, piece: Piece) -> None:
        """Take no notice: it has no text."""

    def abort(self, request_id: str) -> None:
        """Take no notice."""

    async def close(self) -> None:
        self.num_left = -1


async def hosted(*stages: Counting) -> tuple[LocalFabric, list[StageHandle]]:
    to_build = iter(stages)

    def build(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> Stage:
        stage = next(to_build)
        stage.status = StatusPublisher(publish)
        return stage

    fabric = LocalFabric(build)
    handles = [await fabric.host([SPEC], LoadContext(), Placement()) for _ in stages]
    return fabric, handles


async def chained(first: Counting, second: Counting) -> tuple[LocalFabric, StageStream]:
    fabric, handles = await hosted(first, second)
    return fabric, fabric.open(handles[1], replace(REQUEST, upstream=(handles[0],)))


async def test_items_pass_through_and_draining_waits_for_the_end() -> None:
    fabric, stream = await chained(Counting(), Counting())
    assert await anext(stream) == FrameReady(0)
    assert fabric.num_open == 2
    draining = asyncio.create_task(fabric.drain())
    await asyncio.sleep(0.01)
    assert not draining.done()
    assert [item async for item in stream][-1] == Ended("stop")
    await draining
    assert fabric.num_open == 0


async def test_closing_midway_closes_every_stage() -> None:
    first, second = Counting(), Counting()
    fabric, handles = await hosted(first, second)
    stream = fabric.open(handles[1], replace(REQUEST, upstream=(handles[0],)))
    await anext(stream)
    await stream.aclose()
    assert (first.num_left, second.num_left, fabric.num_open) == (1, 1, 0)
    for handle in handles:
        await fabric.release(handle)
    assert (first.num_left, second.num_left) == (-1, -1)


async def test_a_failing_stage_fails_the_stream_and_frees_the_others() -> None:
    first, second = Counting(fail_at=2), Counting()
    fabric, stream = await chained(first, second)
    with pytest.raises(ValueError, match="broken"):
        [item async for item in stream]
    assert (first.num_left, second.num_left, fabric.num_open) == (1, 1, 0)


async def test_a_stream_that_was_never_begun_holds_nothing() -> None:
    fabric, stream = await chained(Counting(), Counting())
    await stream.aclose()
    assert fabric.num_open == 0


async def test_a_stage_is_placed_on_the_device_that_its_placement_names() -> None:
    devices = []

    def build(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> Stage:
        devices.append(context.device)
        return Counting()

    fabric = LocalFabric(build)
    for placement in (Placement(), Placement(device="cuda:1")):
        await fabric.host([SPEC], LoadContext(device="cpu"), placement)
    assert devices == ["cpu", "cuda:1"]


async def test_the_last_published_status_is_kept_until_the_stage_is_released() -> None:
    stage = Counting()
    fabric, (handle,) = await hosted(stage)
    stage.status.update(capacity=3, failure="broken")
    assert fabric.status(handle) == StageStatus(capacity=3, failure="broken")
    stage.status.update(opened=1)
    await fabric.release(handle)
    stage.status.update(capacity=4)  # as a request that outlives its stage may do
    assert fabric.num_open == 0
