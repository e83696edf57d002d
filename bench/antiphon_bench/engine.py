"""Benchmark of a model's stages without HTTP: concurrent streams of a fixed number of frames."""

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import Any

from antiphon.concurrency import set_interpreter_for_streams, settle_heap
from antiphon.config import ModelSettings
from antiphon.contracts.family import Product
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, new_request_id
from antiphon.families.registry import resolve
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.stages.base import StageRequest
from antiphon_bench.bound import measure_bound
from antiphon_bench.host import HostTime, host_seconds, host_times
from antiphon_bench.machine import provenance
from antiphon_bench.playback import underrun_s
from antiphon_bench.random_model import CHARACTERS_PER_TOKEN
from antiphon_bench.summary import Percentiles, PlaybackSummary

TEXT = (
    "The rain had stopped before dawn. Someone in the next street was singing, and after each "
    "line a second voice answered, a little lower, a little later."
)
_FRAMES_PER_TOKEN = 10
"""Default of the fewest frames that a token of text yields, unless the family sets another."""
_WARM_UP_FRAMES = 16
UNBOUNDED = {"max_waiting": sys.maxsize, "max_wait_s": inf, "max_load": inf}
"""Limits that refuse nothing: the measurement finds how many streams play without gaps."""


@dataclass(frozen=True, slots=True)
class Load:
    """One measurement to be made.

    Attributes:
        concurrency: streams that run at the same time.
        num_frames: frames of each stream; a text that ends earlier is restarted.
    """

    concurrency: int
    num_frames: int
    text: str = TEXT


@dataclass(slots=True)
class StreamTimes:
    """When a stream's audio came; seconds of `time.perf_counter`.

    Chunks that bring frames but no sound count as frames alone.
    """

    started_s: float
    arrivals_s: list[float] = field(default_factory=list)
    durations_s: list[float] = field(default_factory=list)
    num_frames: int = 0
    num_restarts: int = 0

    def take(self, chunk: AudioChunk) -> None:
        """Note a chunk that has just arrived."""
        self.num_frames += chunk.num_frames
        if len(chunk.samples):
            self.arrivals_s.append(time.perf_counter())
            self.durations_s.append(chunk.duration_s)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a measurement.

    Attributes:
        concurrency: streams at the same time.
        num_frames: made by all streams together.
        num_restarts: texts that ended too early and were begun again; a restart reads its prompt
            anew, so that figures with many of them are not those of a steady stream.
        frame_ms: time in which every stream makes a frame.
        real_time_factor: real-time factor of one stream: its wall time over its audio's duration.
        audio_s_per_s: seconds of audio per second, all streams together.
        first_audio_ms: time from the request to first audio; all streams begin at once.
        chunk_gap_ms: time between two chunks of a stream.
        playback: underruns of a playback that begins with the first audio.
        host_ms: host time per step by phase: ``schedule``, ``launch``, ``update``, and ``gap``, the
            time that the device was idle between steps while there was work.
        first_audio_ms_p50: median of ``first_audio_ms``, under its older name.
        first_audio_ms_p95: 95th percentile of ``first_audio_ms``, under its older name.
    """

    concurrency: int
    num_frames: int
    num_restarts: int
    frame_ms: float
    real_time_factor: float
    audio_s_per_s: float
    first_audio_ms: Percentiles
    chunk_gap_ms: Percentiles | None
    playback: PlaybackSummary
    first_audio_ms_p50: float
    first_audio_ms_p95: float
    host_ms: dict[str, HostTime] = field(default_factory=dict)


def text_for(
    num_frames: int, *, has_real_tokens: bool, frames_per_token: int = _FRAMES_PER_TOKEN
) -> str:
    """Return a text that is long enough for so many frames.

    Args:
        num_frames: frames that the text must yield.
        has_real_tokens: whether the model's tokens are those of a published one. Those of random
            weights are bytes; the text is then cut to as many as the real tokenizer would give.
        frames_per_token: frames that a token of text yields.
    """
    num_characters = len(TEXT) if has_real_tokens else len(TEXT) // CHARACTERS_PER_TOKEN
    tokens_wanted = -(-num_frames // frames_per_token)
    num_characters = max(
        num_characters, tokens_wanted * (CHARACTERS_PER_TOKEN if has_real_tokens else 1)
    )
    return " ".join([TEXT] * (1 + num_characters // len(TEXT)))[:num_characters].strip()


async def measure(model: SpeechModel, load: Load) -> Result:
    capabilities = model.capabilities
    ignores_eos = capabilities.draws_end  # random weights end anywhere
    sampling = replace(model.task.sampling, max_frames=load.num_frames, ignore_eos=ignores_eos)
    request = replace(capabilities.sample_request, input=load.text, sampling=sampling)
    prompts = [
        await asyncio.to_thread(model.prompter.build, request, capabilities.voices[0], seed)
        for seed in range(load.concurrency)
    ]
    before = await host_seconds(model)
    times = await asyncio.gather(*(_stream(model, each, load.num_frames) for each in prompts))
    return replace(summarize(times), host_ms=host_times(before, await host_seconds(model)))


def summarize(times: Sequence[StreamTimes]) -> Result:
    """Turn the streams' times into one result."""
    with_audio = [each for each in times if each.arrivals_s]
    wall_s = max(each.arrivals_s[-1] for each in with_audio) - min(each.started_s for each in times)
    audio_s = sum(sum(each.durations_s) for each in times)
    num_frames = sum(each.num_frames for each in times)
    first_ms = Percentiles.ms_of(each.arrivals_s[0] - each.started_s for each in with_audio)
    playback = PlaybackSummary.of([underrun_s(each.arrivals_s, each.durations_s) for each in times])
    assert first_ms is not None
    assert playback is not None
    return Result(
        concurrency=len(times),
        num_frames=num_frames,
        num_restarts=sum(each.num_restarts for each in times),
        frame_ms=wall_s * 1000 * len(times) / num_frames,
        real_time_factor=wall_s * len(times) / audio_s,
        audio_s_per_s=audio_s / wall_s,
        first_audio_ms=first_ms,
        chunk_gap_ms=Percentiles.ms_of(
            after_s - before_s for each in times for before_s, after_s in pairwise(each.arrivals_s)
        ),
        playback=playback,
        first_audio_ms_p50=first_ms.p50,
        first_audio_ms_p95=first_ms.p95,
    )


async def bound_of(settings: ModelSettings, batches: Collection[int]) -> dict[str, Any] | None:
    """Return the hardware bounds of a model that is not loaded yet: its memory is then free.

    Returns:
        ``None`` without a GPU, or if the family does not define its matrix products.
    """
    products = await asyncio.to_thread(frame_products, settings)
    if not products:
        return None
    return await asyncio.to_thread(measure_bound, settings.device, products, sorted(batches))


async def run(
    settings: ModelSettings,
    loads: Sequence[Load],
    on_result: Callable[[Result], None] | None = None,
) -> dict[str, Any]:
    """Load a model, warm it with each load once, and measure.

    Args:
        on_result: callback with each load's figures as soon as they are known.

    Returns:
        What was measured and on what, with what bounds it if there is a GPU, ready for JSON.
    """
    bound = await bound_of(settings, {load.concurrency for load in loads})
    model = await SpeechModel.load(settings.model_copy(update=UNBOUNDED))
    try:
        await model.warm_up()
        set_interpreter_for_streams()  # as a server does
        settle_heap()
        results = []
        for load in loads:
            await measure(model, replace(load, num_frames=min(_WARM_UP_FRAMES, load.num_frames)))
            result = await measure(model, load)
            if on_result is not None:
                on_result(result)
            results.append(asdict(result))
    finally:
        await model.close()
    return {
        **provenance(),
        "kind": "engine",
        "model": settings.model_dump(),
        "text": loads[0].text,
        "bound": bound,
        "results": results,
    }


def frame_products(settings: ModelSettings) -> list[Product]:
    """Return the matrix products of a model's frame; none if its family gives none."""
    family, path = resolve(settings.source)
    if family.measuring is None or family.measuring.frame_products is None or path is None:
        return []
    products: list[Product] = family.measuring.frame_products.resolve()(path)
    return products


async def _stream(model: SpeechModel, prompt: Prompt, num_frames: int) -> StreamTimes:
    """Speak until there are as many frames; a text that ends before is begun again."""
    times = StreamTimes(time.perf_counter())
    while times.num_frames < num_frames:
        if times.num_frames:
            times.num_restarts += 1
        async with aclosing(model.open(StageRequest(new_request_id(), prompt))) as items:
            async for item in items:
                if isinstance(item, AudioChunk):
                    times.take(item)
                if times.num_frames >= num_frames:
                    break
        sampling = replace(prompt.sampling, max_frames=max(1, num_frames - times.num_frames))
        prompt = replace(prompt, seed=prompt.seed + 1_000_003, sampling=sampling)
    return times
