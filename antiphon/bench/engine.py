"""Measures a model's stages without HTTP: all streams at once, until each has made its frames."""

import asyncio
import platform
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from statistics import quantiles
from typing import Any

from antiphon import __version__
from antiphon.config import ModelSettings
from antiphon.fabric.base import StageRequest
from antiphon.models.base import Prompt
from antiphon.pipeline.runtime import LoadedModel
from antiphon.types import AudioChunk, new_request_id

TEXT = (
    "The rain had stopped before dawn. Someone in the next street was singing, and after each "
    "line a second voice answered, a little lower, a little later."
)


@dataclass(frozen=True, slots=True)
class Load:
    """One measurement to be made.

    Attributes:
        concurrency: streams that run at the same time.
        num_frames: that each stream makes; a text that ends before is begun again.
    """

    concurrency: int
    num_frames: int


@dataclass(slots=True)
class StreamTimes:
    """When a stream's audio came; seconds of `time.perf_counter`."""

    started_s: float
    first_audio_s: float = 0.0
    ended_s: float = 0.0
    audio_s: float = 0.0
    num_frames: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a measurement gave.

    Attributes:
        concurrency: streams at the same time.
        num_frames: made by all streams together.
        frame_ms: time in which every stream makes a frame.
        real_time_factor: of one stream: its wall time over its audio's duration.
        audio_s_per_s: of all streams together.
        first_audio_ms_p50: from the request to its first chunk, all streams beginning at once.
        first_audio_ms_p95: the same, for all but the slowest 5 %.
    """

    concurrency: int
    num_frames: int
    frame_ms: float
    real_time_factor: float
    audio_s_per_s: float
    first_audio_ms_p50: float
    first_audio_ms_p95: float


async def measure(model: LoadedModel, load: Load) -> Result:
    """Run one load and return what it gave."""
    capabilities = model.capabilities
    voice, sampling = capabilities.voices[0], model.family.sampling
    request = replace(capabilities.sample_request, input=TEXT, sampling=sampling)
    prompts = [
        await asyncio.to_thread(model.prompter.build, request, voice, seed)
        for seed in range(load.concurrency)
    ]
    times = await asyncio.gather(*(_stream(model, each, load.num_frames) for each in prompts))
    return summarize(times)


def summarize(times: Sequence[StreamTimes]) -> Result:
    """Turn the streams' times into one result."""
    wall_s = max(each.ended_s for each in times) - min(each.started_s for each in times)
    audio_s = sum(each.audio_s for each in times)
    num_frames = sum(each.num_frames for each in times)
    first_ms = sorted((each.first_audio_s - each.started_s) * 1000 for each in times)
    cuts = quantiles(first_ms, n=20, method="inclusive") if len(times) > 1 else first_ms * 19
    return Result(
        concurrency=len(times),
        num_frames=num_frames,
        frame_ms=wall_s * 1000 * len(times) / num_frames,
        real_time_factor=wall_s * len(times) / audio_s,
        audio_s_per_s=audio_s / wall_s,
        first_audio_ms_p50=cuts[9],
        first_audio_ms_p95=cuts[18],
    )


async def run(settings: ModelSettings, loads: Sequence[Load]) -> dict[str, Any]:
    """Load a model, warm it with each load once, and measure.

    Returns:
        What was measured and on what, ready for JSON.
    """
    model = await LoadedModel.load(settings)
    try:
        await model.warm_up()
        results = []
        for load in loads:
            await measure(model, replace(load, num_frames=min(8, load.num_frames)))
            results.append(asdict(await measure(model, load)))
    finally:
        await model.close()
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "antiphon": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "model": settings.model_dump(),
        "results": results,
    }


async def _stream(model: LoadedModel, prompt: Prompt, num_frames: int) -> StreamTimes:
    """Speak until there are as many frames; a text that ends before is begun again."""
    times = StreamTimes(time.perf_counter())
    while times.num_frames < num_frames:
        async with aclosing(model.open(StageRequest(new_request_id(), prompt))) as items:
            async for item in items:
                if not isinstance(item, AudioChunk):
                    continue
                times.ended_s = time.perf_counter()
                times.first_audio_s = times.first_audio_s or times.ended_s
                times.audio_s += item.duration_s
                times.num_frames += item.num_frames
                if times.num_frames >= num_frames:
                    break
        prompt = replace(prompt, seed=prompt.seed + 1_000_003)
    return times
