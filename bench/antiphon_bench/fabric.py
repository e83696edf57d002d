"""Benchmark of the path between a stage and its reader, on each fabric.

The stage computes nothing, so that what remains is the cost of the way: from a request to its first
chunk, from a chunk's making to its reader, and the CPU time of both sides. All processes are on
this host: times are of one clock.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict, astuple, dataclass
from functools import partial
from typing import Any, TypeAlias

from antiphon.config.sources import load_settings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, new_request_id
from antiphon.fabric.base import Placement
from antiphon.fabric.choice import open_fabric
from antiphon.stages.base import StageRequest, StageStream
from antiphon_bench.machine import provenance
from antiphon_bench.paced_stage import BUILDER, SPEC, Pace, age_s, stage_cpu_s
from antiphon_bench.summary import Percentiles

Open: TypeAlias = Callable[[StageRequest], StageStream]


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricLoad:
    """One measurement to be made.

    Attributes:
        num_rounds: rounds in which all streams are opened for their first chunk and closed again.
        interval_s: time between two chunks of a stream.
    """

    num_streams: int
    num_chunks: int = 100
    num_rounds: int = 50
    interval_s: float = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricResult:
    """Result of a measurement.

    Attributes:
        first_ms: time from a request to its first chunk; all streams begin at once.
        chunk_ms: time from the creation of a chunk to its reader; all streams create one at once.
        reader_cpu_us: CPU time of this process per chunk; on the local fabric, with its creation.
        stage_cpu_us: CPU time of the stage's process per chunk; 0 where that is this one.
    """

    fabric: str
    num_streams: int
    first_ms: Percentiles
    chunk_ms: Percentiles
    reader_cpu_us: float
    stage_cpu_us: float


async def run(loads: Sequence[FabricLoad], fabrics: Sequence[str]) -> dict[str, Any]:
    """Measure each load on each fabric; raises SettingsError.

    Args:
        fabrics: values of the setting ``server.fabric``.

    Returns:
        The results and on what they were measured, ready for JSON.
    """
    results: list[FabricResult] = []
    for name in fabrics:
        async with AsyncExitStack() as stack:
            # A Ray cluster of our own: others are not disturbed, and the clock is this host's.
            chosen = {"server.fabric": name, "server.ray_address": "local"}
            settings = load_settings(chosen, environment={})
            fabric = await open_fabric(settings, BUILDER, stack)
            handle = await fabric.host([SPEC], LoadContext(device="cpu"), Placement())
            stack.push_async_callback(fabric.release, handle)
            for load in loads:
                results.append(await measure(name, partial(fabric.open, handle), load))
    return {**provenance(), "kind": "fabric", "results": [asdict(each) for each in results]}


async def measure(fabric: str, open: Open, load: FabricLoad) -> FabricResult:
    numbers = range(load.num_streams)
    await asyncio.gather(*(_first_s(open) for _ in numbers))  # to warm up
    first_s: list[float] = []
    for _ in range(load.num_rounds):
        first_s += await asyncio.gather(*(_first_s(open) for _ in numbers))
    pace = Pace(load.num_chunks, load.interval_s)
    cpu_s = time.process_time()
    streams = await asyncio.gather(*(_ages_s(open, pace) for _ in numbers))
    cpu_s = time.process_time() - cpu_s
    stages_s = [each for _, used_s in streams for each in used_s]
    num_chunks = load.num_streams * load.num_chunks
    first_ms = Percentiles.ms_of(first_s)
    # The first chunk of a stream is created at once: its age is that of an unbatched chunk.
    chunk_ms = Percentiles.ms_of(each for ages_s, _ in streams for each in ages_s[1:])
    assert first_ms is not None
    assert chunk_ms is not None
    return FabricResult(
        fabric=fabric,
        num_streams=load.num_streams,
        first_ms=first_ms,
        chunk_ms=chunk_ms,
        reader_cpu_us=cpu_s * 1e6 / num_chunks,
        stage_cpu_us=(
            0.0 if fabric == "local" else (max(stages_s) - min(stages_s)) * 1e6 / num_chunks
        ),
    )


def _request(pace: Pace) -> StageRequest:
    return StageRequest(new_request_id(), Prompt(data=astuple(pace), num_tokens=1, seed=0))


async def _first_s(open: Open) -> float:
    began_s = time.perf_counter()
    async with aclosing(open(_request(Pace(2, 60.0)))) as items:
        await anext(items)
        return time.perf_counter() - began_s


async def _ages_s(open: Open, pace: Pace) -> tuple[list[float], list[float]]:
    """Return the ages of a stream's chunks, and the stage's CPU time at each."""
    ages_s: list[float] = []
    used_s: list[float] = []
    async with aclosing(open(_request(pace))) as items:
        async for item in items:
            if isinstance(item, AudioChunk):
                ages_s.append(age_s(item))
                used_s.append(stage_cpu_s(item))
    return ages_s, used_s
