"""Many requests in one denoiser: each is what it would be alone, and leaves nothing behind."""

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.picture_types import Progress
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Ended, Latents
from antiphon.diffusion.engine import DenoisingJob, DiffusionEngine
from antiphon.errors import EngineError, EngineFailedError, InvalidRequestError, OverloadedError
from antiphon.telemetry.stage_status import StageStatus
from tests.diffusion.denoisers import DEADLINE_S, StubDenoiser, Task, prompt

Items = list[Progress | Latents | Ended]


async def denoised(engine: DiffusionEngine, what: Prompt, *, is_live: bool = True) -> Items:
    with engine.admitted(f"{what.seed}", what, is_live=is_live) as job:
        assert await job.called()
        return [item async for item in job.denoise(Latents([1.0, 2.0, 3.0]))]


@asynccontextmanager
async def on_engine(
    **settings: Any,
) -> AsyncGenerator[tuple[DiffusionEngine, StubDenoiser], None]:
    denoiser = StubDenoiser()
    engine = DiffusionEngine(denoiser, **settings)
    try:
        yield engine, denoiser
        assert engine._status.status.num_open == 0
    finally:
        denoiser.may_step.set()
        await engine.close()
    assert denoiser.is_closed.is_set()


def result(items: Items) -> list[float]:
    latents = items[-2]
    assert isinstance(latents, Latents)
    assert latents.preview_index is None
    assert items[-1] == Ended("stop")
    return [*map(float, latents.data)]


async def stepping(denoiser: StubDenoiser) -> None:
    assert await asyncio.to_thread(denoiser.is_stepping.wait, DEADLINE_S)


async def test_a_request_in_company_is_what_it_is_alone() -> None:
    tasks = [
        Task(num_steps=3 + seed % 4, key="small" if seed % 3 else "large") for seed in range(12)
    ]
    async with on_engine() as (engine, denoiser):
        made = (
            denoised(engine, prompt(seed, task), is_live=seed % 5 > 0)
            for seed, task in enumerate(tasks)
        )
        found = [*map(result, await asyncio.gather(*made))]
        assert max(map(len, denoiser.batches)) == denoiser.max_batch, "they had company"
    async with on_engine() as (engine, _):
        for seed, task in enumerate(tasks):
            assert result(await denoised(engine, prompt(seed, task))) == found[seed]


async def test_requests_join_and_leave_between_steps() -> None:
    async with on_engine() as (engine, denoiser):
        denoiser.may_step.clear()
        first = asyncio.create_task(denoised(engine, prompt(1, Task(num_steps=6))))
        await stepping(denoiser)
        second = asyncio.create_task(denoised(engine, prompt(2, Task(num_steps=2))))
        while engine._status.status.num_open < 2:
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # it is called, and ready
        denoiser.may_step.set()
        await asyncio.gather(first, second)
        assert denoiser.batches[0] == (1,)
        assert [batch for batch in denoiser.batches if 2 in batch] == [(1, 2)] * 2
        assert denoiser.batches[-1] == (1,)
        assert len(denoiser.batches) == 6


async def test_progress_grows_and_previews_lie_between_steps() -> None:
    async with on_engine() as (engine, _):
        items = await denoised(engine, prompt(1, Task(num_steps=9, previews=(3, 6))))
        steps = [item.step for item in items if isinstance(item, Progress)]
        assert steps == sorted(set(steps))
        assert steps[-1] == 9
        latents = [item for item in items if isinstance(item, Latents)]
        assert [each.preview_index for each in latents] == [0, 1, None]
        assert len({tuple(each.data) for each in latents}) == 3


async def test_a_slow_reader_stops_nobody_and_loses_nothing_but_progress() -> None:
    async with on_engine() as (engine, _):
        slow = prompt(1, Task(num_steps=30, previews=(10, 20)))
        with engine.admitted("slow", slow) as job:
            assert await job.called()
            items = job.denoise(None)
            await anext(items)
            while not job.has_left:  # it is denoised though nobody reads
                await denoised(engine, prompt(2, Task(num_steps=1)))
            rest = [item async for item in items]
        assert [each.preview_index for each in rest if isinstance(each, Latents)] == [0, 1, None]
        assert rest[-1] == Ended("stop")
        progress = [each.step for each in rest if isinstance(each, Progress)]
        assert len(progress) <= 3, "one before each of the latents"
        assert progress == sorted(set(progress))
        assert progress[-1] == 30


@pytest.mark.parametrize("how", ["closed", "aborted", "cancelled"])
async def test_whoever_leaves_within_a_step_leaves_nothing(how: str) -> None:
    async with on_engine() as (engine, denoiser):
        denoiser.may_step.clear()
        leaving = asyncio.create_task(denoised(engine, prompt(1, Task(num_steps=1000))))
        await stepping(denoiser)
        if how == "aborted":
            engine.abort("1")
            assert (await leaving)[-1] == Ended("abort")
        else:
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await leaving
        assert engine._status.status.num_open == 0
        if how == "closed":  # while another one waits
            other = asyncio.create_task(denoised(engine, prompt(2)))
            while not engine._status.status.num_open:
                await asyncio.sleep(0)
            denoiser.may_step.set()
            result(await other)
        else:
            denoiser.may_step.set()
            result(await denoised(engine, prompt(2)))
        gc.collect()
        assert denoiser.states[1]() is None
        assert sum(1 in batch for batch in denoiser.batches) == 1, "it took no step more"


async def test_nothing_is_left_of_requests_that_have_ended() -> None:
    async with on_engine() as (engine, denoiser):
        await asyncio.gather(*(denoised(engine, prompt(seed)) for seed in range(5)))
        gc.collect()
        assert len(denoiser.states) == 5
        assert denoiser.num_states == 0


@pytest.mark.parametrize("where", ["begin", "preview", "finish"])
async def test_a_request_that_fails_ends_alone(where: str) -> None:
    async with on_engine() as (engine, denoiser):
        denoiser.may_step.clear()
        good = asyncio.create_task(denoised(engine, prompt(1, Task(num_steps=8))))
        await stepping(denoiser)
        task = Task(num_steps=3, previews=(1,), fails_in=where)
        bad = asyncio.create_task(denoised(engine, prompt(2, task)))
        while engine._status.status.num_open < 2:
            await asyncio.sleep(0)
        denoiser.may_step.set()
        with pytest.raises(EngineError, match="failed"):
            await bad
        result(await good)
        assert engine.failure is None


async def test_a_step_that_fails_ends_those_that_took_it() -> None:
    async with on_engine() as (engine, _):
        found = await asyncio.gather(
            denoised(engine, prompt(1, Task(fails_in="step"))),
            denoised(engine, prompt(2, Task(key="another"))),
            return_exceptions=True,
        )
        assert isinstance(found[0], EngineError)
        assert isinstance(found[1], list)
        result(await denoised(engine, prompt(3)))


async def test_what_the_model_refuses_is_told_as_it_says_it() -> None:
    async with on_engine() as (engine, _):
        error = InvalidRequestError("Too large.", param="size")
        with pytest.raises(InvalidRequestError, match=r"Too large\."):
            await denoised(engine, prompt(1, Task(fails_in="begin", error=error)))


async def test_a_denoiser_that_is_broken_for_good_ends_all_and_says_so() -> None:
    statuses: list[StageStatus] = []
    async with on_engine(publish=statuses.append) as (engine, denoiser):
        denoiser.may_step.clear()
        error = EngineFailedError("The device is gone.")
        several = [
            asyncio.create_task(denoised(engine, prompt(seed, task)))
            for seed, task in enumerate([Task(fails_in="step", error=error), Task(key="another")])
        ]
        await stepping(denoiser)
        denoiser.may_step.set()
        for each in await asyncio.gather(*several, return_exceptions=True):
            assert isinstance(each, EngineFailedError)
        assert statuses[-1].failure == "The device is gone."
        with pytest.raises(EngineFailedError):
            await denoised(engine, prompt(3))


async def test_the_queue_is_bounded_and_says_when_to_retry() -> None:
    async with on_engine(limits=AdmissionLimits(max_waiting=2)) as (engine, denoiser):
        denoiser.may_step.clear()
        held: list[DenoisingJob] = []
        admitted = [engine.admitted(f"{n}", prompt(n)) for n in range(denoiser.max_batch + 2)]
        held.extend(each.__enter__() for each in admitted)
        for job in held[: denoiser.max_batch]:
            engine.make_ready(job, None)
        await stepping(denoiser)
        with pytest.raises(OverloadedError) as caught, engine.admitted("more", prompt(9)):
            raise AssertionError
        assert caught.value.retry_after_s is not None
        assert caught.value.retry_after_s >= 1
        with engine.admitted("offline", prompt(10), is_live=False):
            assert engine._status.status.num_open == len(held) + 1
        for each in admitted:
            each.__exit__(None, None, None)


async def test_requests_wait_for_memory_and_those_that_never_fit_are_refused() -> None:
    async with on_engine(max_bytes=100) as (engine, denoiser):
        large = Task(num_bytes=60)
        await asyncio.gather(*(denoised(engine, prompt(n, large)) for n in range(3)))
        assert {len(batch) for batch in denoiser.batches} == {1}
        with pytest.raises(InvalidRequestError) as caught:
            await denoised(engine, prompt(9, Task(num_bytes=101)))
        assert caught.value.param == "size"


async def test_what_waits_is_asked_for_its_conditioning_only_when_its_turn_is_near() -> None:
    async with on_engine() as (engine, denoiser):
        denoiser.may_step.clear()
        tasks = [asyncio.create_task(denoised(engine, prompt(n))) for n in range(3)]
        await stepping(denoiser)
        waiting = [engine.admitted(f"w{n}", prompt(100 + n)) for n in range(20)]
        jobs = [each.__enter__() for each in waiting]
        assert sum(job.request.is_called for job in jobs) <= denoiser.max_batch
        for each in waiting:
            each.__exit__(None, None, None)
        denoiser.may_step.set()
        await asyncio.gather(*tasks)


async def test_statistics_and_the_step_under_way_are_published() -> None:
    statuses: list[StageStatus] = []
    async with on_engine(publish=statuses.append) as (engine, _):
        await asyncio.gather(*(denoised(engine, prompt(n)) for n in range(3)))
    assert any(status.step_began_s is not None for status in statuses)
    assert any(status.num_open == 3 for status in statuses)
    last = statuses[-1]
    assert (last.num_open, last.step_began_s, last.capacity) == (0, None, 3)
    assert last.stats is not None
    assert last.stats.requests_running == 0
    assert sum(last.stats.step_rows["denoise"].counts) >= 4


async def test_closing_ends_what_is_open() -> None:
    async with on_engine() as (engine, denoiser):
        denoiser.may_step.clear()
        several = [asyncio.create_task(denoised(engine, prompt(n))) for n in range(5)]
        await stepping(denoiser)
        closing = asyncio.create_task(engine.close())
        for each in await asyncio.gather(*several, return_exceptions=True):
            assert isinstance(each, EngineFailedError)
        denoiser.may_step.set()
        await closing
        with pytest.raises(EngineFailedError):
            await denoised(engine, prompt(9))
