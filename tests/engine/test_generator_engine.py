"""Generators in threads: each stream is what it would be alone, and none holds up another."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.prompt import GeneratorItem, Prompt
from antiphon.contracts.types import AudioChunk, Ended
from antiphon.engine.generator_engine import GeneratorEngine
from antiphon.errors import EngineError, OverloadedError

DEADLINE_S = 20.0
"""For what must happen at all; how soon is nowhere asserted."""
RATE_HZ = 24_000


class Noise:
    """Makes ``prompt.num_tokens`` chunks of noise by the seed; some prompts do worse.

    Attributes:
        made: chunks of each seed.
        closed: seeds whose generator has been closed or has ended.
        go_on: lets those that hang go on.
        hangs: set when one hangs.
    """

    def __init__(self) -> None:
        self.made: dict[int, int] = {}
        self.closed: list[int] = []
        self.go_on = threading.Event()
        self.hangs = threading.Event()
        self.is_closed = threading.Event()

    def generate(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        draws = np.random.default_rng(prompt.seed)
        try:
            for _ in range(prompt.num_tokens):
                self.made[prompt.seed] = self.made.get(prompt.seed, 0) + 1
                yield AudioChunk(draws.random(RATE_HZ // 10, np.float32), RATE_HZ, 1)
            if prompt.data == "fails":
                raise RuntimeError("a bug of the model")
            if prompt.data == "hangs":
                self.hangs.set()
                assert self.go_on.wait(DEADLINE_S)
        finally:
            self.closed.append(prompt.seed)

    def close(self) -> None:
        self.is_closed.set()


def prompt(seed: int, num_chunks: int = 8, data: str = "") -> Prompt:
    return Prompt(data=data, num_tokens=num_chunks, seed=seed)


@asynccontextmanager
async def on_engine(
    num_threads: int = 2, **settings: Any
) -> AsyncGenerator[tuple[GeneratorEngine, Noise], None]:
    noise = Noise()
    engine = GeneratorEngine(noise, num_threads=num_threads, **settings)
    try:
        yield engine, noise
        assert engine._status.status.num_open == 0
    finally:
        noise.go_on.set()
        await engine.close()
    assert noise.is_closed.is_set()


async def samples(events: AsyncGenerator[GeneratorItem | Ended, None]) -> list[float]:
    async with aclosing(events):
        *chunks, ended = [event async for event in events]
    assert ended == Ended("stop")
    return [
        value
        for chunk in chunks
        if isinstance(chunk, AudioChunk)
        for value in chunk.samples.tolist()
    ]


async def test_a_stream_in_a_crowd_is_what_it_is_alone() -> None:
    heard: list[list[float]] = []
    async with on_engine() as (engine, _):
        streams = [
            samples(engine.generate(f"{n}", prompt(n), is_live=n % 3 > 0)) for n in range(30)
        ]
        heard.extend(await asyncio.gather(*streams))
    for seed, values in enumerate(heard):
        alone = [each.samples for each in Noise().generate(prompt(seed))]
        assert values == np.concatenate(alone).tolist()


async def test_nothing_is_made_before_it_is_wanted() -> None:
    async with on_engine() as (engine, noise):
        async with aclosing(engine.generate("a", prompt(1))) as chunks:
            assert noise.made == {}
            for number in range(1, 4):
                await anext(chunks)
                assert noise.made == {1: number}
        assert noise.closed == [1]


async def test_a_generator_that_fails_ends_its_own_stream_only() -> None:
    async with on_engine(num_threads=1) as (engine, _):
        failing = samples(engine.generate("bad", prompt(1, 2, "fails")))
        good, bad = await asyncio.gather(
            samples(engine.generate("good", prompt(2, 20))), failing, return_exceptions=True
        )
        assert isinstance(bad, RuntimeError)
        assert isinstance(good, list)
        assert len(good) == 20 * RATE_HZ // 10
        assert len(await samples(engine.generate("next", prompt(3)))) == 8 * RATE_HZ // 10


async def test_leaving_does_not_wait_for_the_chunk_in_flight() -> None:
    async with on_engine() as (engine, noise):
        leaving = asyncio.create_task(samples(engine.generate("a", prompt(1, 0, "hangs"))))
        await asyncio.to_thread(noise.hangs.wait, DEADLINE_S)
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving
        assert engine._status.status.num_open == 0
        assert len(await samples(engine.generate("b", prompt(2, 3)))) == 3 * RATE_HZ // 10
        assert noise.closed == [2], "what runs cannot be closed"
    assert noise.closed == [2, 1]


async def test_an_aborted_request_ends_at_once_even_while_a_chunk_is_computed() -> None:
    async with on_engine() as (engine, noise):
        async with aclosing(engine.generate("a", prompt(1, 0, "hangs"))) as events:
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(noise.hangs.wait, DEADLINE_S)
            engine.abort("a")
            assert await waiting == Ended("abort")
        async with aclosing(engine.generate("b", prompt(2))) as events:
            assert isinstance(await anext(events), AudioChunk)
            engine.abort("b")
            assert [event async for event in events] == [Ended("abort")]
        engine.abort("b")


async def test_a_chunk_that_takes_long_is_in_the_status() -> None:
    async with on_engine() as (engine, noise):
        assert engine._status.status.stalled_s() == 0
        hanging = asyncio.create_task(samples(engine.generate("a", prompt(1, 0, "hangs"))))
        await asyncio.to_thread(noise.hangs.wait, DEADLINE_S)
        assert len(await samples(engine.generate("b", prompt(2)))) > 0, "there is another thread"
        assert engine._status.status.stalled_s() > 0
        noise.go_on.set()
        assert await hanging == []
        assert len(await samples(engine.generate("b", prompt(3)))) > 0
        # The thread may be a little late after its last chunk.
        while engine._status.status.stalled_s() > 0:
            await asyncio.sleep(0)


async def test_closing_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.engine.thread.CLOSE_S", 0.01)
    noise = Noise()
    engine = GeneratorEngine(noise, num_threads=1)
    hanging = asyncio.create_task(samples(engine.generate("a", prompt(1, 0, "hangs"))))
    await asyncio.to_thread(noise.hangs.wait, DEADLINE_S)
    waiting = asyncio.create_task(samples(engine.generate("b", prompt(2))))
    while engine._status.status.num_open < 2:
        await asyncio.sleep(0)
    await engine.close()
    assert noise.is_closed.is_set()
    assert not noise.go_on.is_set()
    with pytest.raises(EngineError, match="closed"):
        await waiting
    with pytest.raises(EngineError, match="closed"):
        await samples(engine.generate("c", prompt(3)))
    noise.go_on.set()
    assert await hanging == []
    assert all(thread.daemon for thread in threading.enumerate() if "generator" in thread.name)


async def test_a_request_that_would_cause_gaps_gets_a_time_to_retry() -> None:
    async with on_engine(max_streams=1, limits=AdmissionLimits(max_waiting=0)) as (engine, noise):
        async with aclosing(engine.generate("a", prompt(1))) as chunks:
            await anext(chunks)
            with pytest.raises(OverloadedError) as caught:
                await samples(engine.generate("b", prompt(2)))
            assert caught.value.retry_after_s is not None
            assert caught.value.retry_after_s >= 1.0
            more = engine.generate("a", prompt(3), is_later=True)
            assert len(await samples(more)) > 0, "its beginning was let in"
            assert len(await samples(engine.generate("c", prompt(4), is_live=False))) > 0
        assert len(await samples(engine.generate("d", prompt(5)))) > 0
    assert 2 not in noise.made


def test_several_event_loops_may_share_the_threads() -> None:
    noise = Noise()
    engine = GeneratorEngine(noise, num_threads=1)

    def elsewhere(seed: int) -> None:
        assert len(asyncio.run(samples(engine.generate(f"{seed}", prompt(seed, 20))))) > 0

    threads = [threading.Thread(target=elsewhere, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert noise.made == dict.fromkeys(range(4), 20)
    asyncio.run(engine.close())
