"""Models come into memory when they are wanted, never more than agreed, and leave when idle."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from antiphon.config import ModelsSettings
from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import Ended, FrameReady
from antiphon.errors import ModelLoadError, ModelLoadingError
from antiphon.fabric.base import Placement
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.pool import ModelPool, PooledModel
from antiphon.stages.base import Stage, StageRequest, StageStream
from antiphon.telemetry.stage_status import Publish
from tests.loops import until

TEXT_TO_AUDIO = (ItemKind.TEXT, ItemKind.AUDIO)
REQUEST = StageRequest("req", Prompt(data=None, num_tokens=1, seed=0))


@dataclass
class Ledger:
    """Who is in pool."""

    loaded: list[str] = field(default_factory=list)
    most_at_once: int = 0
    num_builds: int = 0
    may_build: threading.Event = field(default_factory=threading.Event)


class Counting:
    """Yields one frame and ends; written into the ledger while it is in pool."""

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

    def abort(self, request_id: str) -> None:
        """Take no notice."""

    async def close(self) -> None:
        self._ledger.loaded.remove(self._name)


def pool_of(
    ledger: Ledger,
    *,
    max_loaded: int = 0,
    max_bytes: int = 0,
    idle_s: float = 0.0,
    wait_s: float = 30.0,
) -> ModelPool:
    def build(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> Stage:
        return Counting(specs[0].name, ledger)

    max_gib = max_bytes / 2**30
    limits = ModelsSettings(max_loaded=max_loaded, max_gib=max_gib, idle_s=idle_s, wait_s=wait_s)
    return ModelPool(LocalFabric(build), limits)


def added(name: str, pool: ModelPool) -> PooledModel:
    spec = StageSpec(name, StageKind.GENERATOR, *TEXT_TO_AUDIO, Ref("nowhere:nothing"))
    model = PooledModel([[spec]], LoadContext(), [Placement()])
    pool.add(model)
    return model


@asynccontextmanager
async def opened(pool: ModelPool, model: PooledModel) -> AsyncGenerator[StageStream, None]:
    async with (
        pool.held(model) as (handle,),
        aclosing(pool.fabric.open(handle, REQUEST)) as stream,
    ):
        yield stream


async def speak(pool: ModelPool, model: PooledModel) -> None:
    async with opened(pool, model) as stream:
        assert [item async for item in stream][-1] == Ended("stop")


def ready_ledger() -> Ledger:
    ledger = Ledger()
    ledger.may_build.set()
    return ledger


async def test_a_model_is_loaded_once_for_all_who_want_it() -> None:
    ledger = ready_ledger()
    pool = pool_of(ledger)
    model = added("a", pool)
    assert not ledger.loaded
    await asyncio.gather(*(speak(pool, model) for _ in range(5)))
    assert (ledger.num_builds, pool.fabric.num_open) == (1, 0)
    await pool.remove(model)
    assert not ledger.loaded


async def test_there_are_never_more_than_agreed_and_everybody_has_a_turn() -> None:
    ledger = ready_ledger()
    pool = pool_of(ledger, max_loaded=2)
    models = [added(name, pool) for name in "abcd"]
    await pool.preload()
    assert ledger.loaded == ["a", "b"]
    await asyncio.gather(*(speak(pool, models[index % 4]) for index in range(40)))
    assert ledger.most_at_once == 2
    for model in models:
        await pool.remove(model)
    assert not ledger.loaded


async def test_the_one_that_was_idle_for_longest_makes_room() -> None:
    ledger = ready_ledger()
    pool = pool_of(ledger, max_loaded=2)
    a, b, c = [added(name, pool) for name in "abc"]
    for each in (a, b, a):
        await speak(pool, each)
        await asyncio.sleep(0.001)
    await speak(pool, c)
    assert sorted(ledger.loaded) == ["a", "c"]


async def test_models_make_room_by_their_bytes(tmp_path: Path) -> None:
    def of_size(name: str, num_bytes: int, pool: ModelPool) -> PooledModel:
        (tmp_path / f"{name}.weights").write_bytes(bytes(num_bytes))
        factory = Ref("nowhere:nothing")
        spec = StageSpec(name, StageKind.GENERATOR, *TEXT_TO_AUDIO, factory, weights=(f"{name}.*",))
        model = PooledModel([[spec]], LoadContext(tmp_path), [Placement()])
        pool.add(model)
        return model

    ledger = ready_ledger()
    pool = pool_of(ledger, max_bytes=100)
    large, small, tiny, huge = (
        of_size(name, num_bytes, pool)
        for name, num_bytes in (("large", 80), ("small", 20), ("tiny", 1), ("huge", 500))
    )
    await pool.preload()
    assert ledger.loaded == ["large", "small"], "the next would be too much"
    assert pool.fabric.status(large.handles[0]).num_bytes == 80
    await speak(pool, small)
    await speak(pool, tiny)
    assert sorted(ledger.loaded) == ["small", "tiny"]
    await speak(pool, huge)
    assert ledger.loaded == ["huge"], "one is loaded whatever it needs"


async def test_a_model_that_speaks_is_not_sent_away() -> None:
    ledger = ready_ledger()
    pool = pool_of(ledger, max_loaded=1, wait_s=0.05)
    a, b = [added(name, pool) for name in "ab"]
    async with opened(pool, a) as stream:
        await anext(stream)
        with pytest.raises(ModelLoadingError) as refused:
            await speak(pool, b)
        assert refused.value.retry_after_s
        assert ledger.loaded == ["a"]
    while ledger.loaded != ["b"]:  # whoever was told to come again finds it there
        await asyncio.sleep(0.005)
    await speak(pool, b)
    assert ledger.num_builds == 2


async def test_whoever_does_not_wait_does_not_stop_the_loading() -> None:
    ledger = Ledger()
    pool = pool_of(ledger, wait_s=30)
    model = added("a", pool)
    impatient = asyncio.create_task(speak(pool, model))
    await asyncio.sleep(0.01)
    impatient.cancel()
    await asyncio.wait([impatient])
    ledger.may_build.set()
    await speak(pool, model)
    assert ledger.num_builds == 1


async def test_idle_models_leave_and_come_back() -> None:
    ledger = ready_ledger()
    pool = pool_of(ledger, idle_s=0.02)
    model = added("a", pool)
    sweeping = asyncio.create_task(pool.sweep())
    for num_builds in (1, 2):
        await speak(pool, model)
        assert ledger.num_builds == num_builds
        await until(lambda: not ledger.loaded)
    sweeping.cancel()


async def test_a_model_that_cannot_be_loaded_says_so_each_time() -> None:
    def broken(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> Stage:
        raise ModelLoadError("no weights")

    pool = ModelPool(LocalFabric(broken))
    model = added("stage", pool)
    for _ in range(2):
        with pytest.raises(ModelLoadError, match="no weights"):
            await speak(pool, model)
    assert model.num_users == 0


async def test_closing_while_it_loads_waits_for_nobody() -> None:
    ledger = Ledger()
    pool = pool_of(ledger, wait_s=0.01)
    model = added("a", pool)
    with pytest.raises(ModelLoadingError):
        await speak(pool, model)
    closing = asyncio.create_task(pool.remove(model))
    await asyncio.sleep(0.01)
    ledger.may_build.set()
    await closing
