"""Models come into memory when they are wanted, never more than agreed, and leave when idle."""

import asyncio
import threading
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from antiphon.errors import ModelLoadError, ModelLoadingError
from antiphon.fabric.base import StageRequest, StageStream
from antiphon.fabric.model_pool import LazyFabric, ModelPool
from antiphon.models.base import Piece, Prompt
from antiphon.types import Ended, FrameReady

REQUEST = StageRequest("req", Prompt(data=None, num_tokens=1, seed=0))


@dataclass
class Ledger:
    """Who is in memory."""

    loaded: list[str] = field(default_factory=list)
    most_at_once: int = 0
    num_builds: int = 0
    may_build: threading.Event = field(default_factory=threading.Event)


class Counting:
    """Yields one frame and ends; written into the ledger while it is in memory."""

    failure = None
    stalled_s = 0.0

    def __init__(self, name: str, ledger: Ledger) -> None:
        assert ledger.may_build.wait(30)
        self._name, self._ledger = name, ledger
        ledger.num_builds += 1
        ledger.loaded.append(name)
        ledger.most_at_once = max(ledger.most_at_once, len(ledger.loaded))

    async def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        assert self._name in self._ledger.loaded, "it has been unloaded under a stream"
        yield FrameReady(0)
        await asyncio.sleep(0)
        assert self._name in self._ledger.loaded, "it has been unloaded under a stream"
        yield Ended("stop")

    def append(self, request_id: str, piece: Piece) -> None:
        """Take no notice: it has no text."""

    async def close(self) -> None:
        self._ledger.loaded.remove(self._name)


async def hosted(name: str, memory: ModelPool, ledger: Ledger) -> LazyFabric:
    fabric = LazyFabric(memory)
    await fabric.host("stage", lambda: Counting(name, ledger))
    return fabric


async def speak(fabric: LazyFabric) -> None:
    assert [item async for item in fabric.open("stage", REQUEST, None)][-1] == Ended("stop")


def ready_ledger() -> Ledger:
    ledger = Ledger()
    ledger.may_build.set()
    return ledger


def test_a_model_is_loaded_once_for_all_who_want_it() -> None:
    async def main() -> None:
        ledger, memory = ready_ledger(), ModelPool()
        fabric = await hosted("a", memory, ledger)
        assert not ledger.loaded
        await asyncio.gather(*(speak(fabric) for _ in range(5)))
        assert (ledger.num_builds, fabric.num_open) == (1, 0)
        await fabric.close()
        assert not ledger.loaded

    asyncio.run(main())


def test_there_are_never_more_than_agreed_and_everybody_has_a_turn() -> None:
    async def main() -> None:
        ledger, memory = ready_ledger(), ModelPool(max_loaded=2)
        fabrics = [await hosted(name, memory, ledger) for name in "abcd"]
        await memory.preload()
        assert ledger.loaded == ["a", "b"]
        await asyncio.gather(*(speak(fabrics[index % 4]) for index in range(40)))
        assert ledger.most_at_once == 2
        for fabric in fabrics:
            await fabric.close()
        assert not ledger.loaded

    asyncio.run(main())


def test_the_one_that_was_idle_for_longest_makes_room() -> None:
    async def main() -> None:
        ledger, memory = ready_ledger(), ModelPool(max_loaded=2)
        a, b, c = [await hosted(name, memory, ledger) for name in "abc"]
        for each in (a, b, a):
            await speak(each)
            await asyncio.sleep(0.001)
        await speak(c)
        assert sorted(ledger.loaded) == ["a", "c"]

    asyncio.run(main())


def test_a_model_that_speaks_is_not_sent_away() -> None:
    async def main() -> None:
        ledger, memory = ready_ledger(), ModelPool(max_loaded=1, wait_s=0.05)
        a, b = [await hosted(name, memory, ledger) for name in "ab"]
        async with aclosing(a.open("stage", REQUEST, None)) as stream:
            await anext(stream)
            with pytest.raises(ModelLoadingError) as refused:
                await speak(b)
            assert refused.value.retry_after_s
            assert ledger.loaded == ["a"]
        while ledger.loaded != ["b"]:  # whoever was told to come again finds it there
            await asyncio.sleep(0.005)
        await speak(b)
        assert ledger.num_builds == 2

    asyncio.run(main())


def test_whoever_does_not_wait_does_not_stop_the_loading() -> None:
    async def main() -> None:
        ledger, memory = Ledger(), ModelPool(wait_s=30)
        fabric = await hosted("a", memory, ledger)
        impatient = asyncio.create_task(speak(fabric))
        await asyncio.sleep(0.01)
        impatient.cancel()
        await asyncio.wait([impatient])
        ledger.may_build.set()
        await speak(fabric)
        assert ledger.num_builds == 1

    asyncio.run(main())


def test_idle_models_leave_and_come_back() -> None:
    async def main() -> None:
        ledger, memory = ready_ledger(), ModelPool(idle_s=0.02)
        fabric = await hosted("a", memory, ledger)
        sweeping = asyncio.create_task(memory.sweep())
        for num_builds in (1, 2):
            await speak(fabric)
            assert ledger.num_builds == num_builds
            while ledger.loaded:
                await asyncio.sleep(0.005)
        sweeping.cancel()

    asyncio.run(main())


def test_a_model_that_cannot_be_loaded_says_so_each_time() -> None:
    async def main() -> None:
        fabric = LazyFabric(ModelPool())

        def broken() -> Counting:
            raise ModelLoadError("no weights")

        await fabric.host("stage", broken)
        for _ in range(2):
            with pytest.raises(ModelLoadError, match="no weights"):
                await speak(fabric)
        assert fabric.num_users == 0

    asyncio.run(main())


def test_closing_while_it_loads_waits_for_nobody() -> None:
    async def main() -> None:
        ledger, memory = Ledger(), ModelPool(wait_s=0.01)
        fabric = await hosted("a", memory, ledger)
        with pytest.raises(ModelLoadingError):
            await speak(fabric)
        closing = asyncio.create_task(fabric.close())
        await asyncio.sleep(0.01)
        ledger.may_build.set()
        await closing

    asyncio.run(main())
