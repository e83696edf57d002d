"""The measurement of fabrics: known times are found again, and every fabric is gone through."""

import asyncio
import time

import numpy as np
import pytest

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk
from antiphon.errors import SettingsError
from antiphon.stages.base import StageRequest, StageStream
from antiphon.telemetry.stage_status import StageStatus
from antiphon_bench.fabric import FabricLoad, measure, run
from antiphon_bench.paced_stage import NUM_SAMPLES, PacedStage, age_s, stage_cpu_s

LOAD = FabricLoad(num_streams=3, num_chunks=4, num_rounds=2, interval_s=0.01)


def test_what_a_way_costs_is_found() -> None:
    """A way that takes 50 ms for each item is seen to take so long."""
    statuses: list[StageStatus] = []
    stage = PacedStage(statuses.append)

    async def slow(request: StageRequest) -> StageStream:
        async for item in stage.open(request, None):
            await asyncio.sleep(0.05)
            yield item

    result = asyncio.run(measure("slow", slow, LOAD))
    assert result.num_streams == 3
    assert result.first_ms.p50 >= 50
    assert result.chunk_ms.p50 >= 50
    assert result.reader_cpu_us > 0
    assert statuses[-1].num_open == 0


async def test_a_chunk_says_when_it_was_made() -> None:
    before_s = time.process_time()
    prompt = Prompt(data=(1, 1.0), num_tokens=1, seed=0)
    stream = PacedStage(lambda _: None).open(StageRequest("req", prompt), None)
    chunk = await anext(stream)
    assert isinstance(chunk, AudioChunk)
    assert chunk.samples.shape == (NUM_SAMPLES,)
    assert chunk.samples.dtype == np.float32
    assert 0 <= age_s(chunk) < 30
    assert before_s <= stage_cpu_s(chunk) <= time.process_time()


def test_fabrics_are_measured_one_after_the_other() -> None:
    report = asyncio.run(run([LOAD], ["local", "process"]))
    here, there = report["results"]
    assert (here["fabric"], there["fabric"]) == ("local", "process")
    assert here["stage_cpu_us"] == 0
    assert there["stage_cpu_us"] > 0
    assert report["kind"] == "fabric"


def test_an_unknown_fabric_is_refused() -> None:
    with pytest.raises(SettingsError, match="fabric"):
        asyncio.run(run([LOAD], ["telepathy"]))
