"""What is measured of a stream is what its listener would notice, whatever way it ends."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from antiphon.contracts.types import AudioChunk, Ended, SpeechStream, Usage
from antiphon.errors import EngineError, InvalidRequestError, OverloadedError
from antiphon.telemetry import metrics as metrics_module
from antiphon.telemetry.metrics import Metrics
from antiphon.telemetry.picture_stats import PictureMetrics
from antiphon.telemetry.process_state import ProcessState
from antiphon.telemetry.stream_stats import StreamStats

MODEL = "toy"
SAMPLE_RATE_HZ = 1000
MILLISECONDS = st.integers(0, 3000)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


async def spoken(num_chunks: int, *, breaks: bool = False) -> SpeechStream:
    for _ in range(num_chunks):
        yield AudioChunk(np.zeros(100, np.float32), SAMPLE_RATE_HZ, 1)
    if breaks:
        raise EngineError("on purpose")
    yield Ended("stop", Usage(7, num_chunks))


async def listen(metrics: Metrics, stream: SpeechStream, num_items: int | None = None) -> None:
    async def observed() -> SpeechStream:
        with metrics.observe(MODEL, "uploaded") as stats:
            async for event in stream:
                if isinstance(event, Ended):
                    stats.end(event)
                else:
                    stats.record_chunk(event.duration_s)
                yield event
                stats.ask()

    async with aclosing(observed()) as events:
        num_heard = 0
        async for _ in events:
            num_heard += 1
            if num_heard == num_items:
                return


def test_a_stream_that_is_heard_to_its_end() -> None:
    metrics = Metrics()
    asyncio.run(listen(metrics, spoken(3)))
    found = metrics.registry
    assert value(found, "antiphon_speech_ended_total", model=MODEL, reason="stop") == 1
    assert value(found, "antiphon_audio_seconds_total", model=MODEL) == pytest.approx(0.3)
    assert value(found, "antiphon_input_tokens_total", model=MODEL) == 7
    assert value(found, "antiphon_first_audio_seconds_count", model=MODEL) == 1
    assert value(found, "antiphon_real_time_factor_count", model=MODEL) == 1
    place = {"model_name": MODEL, "stage": "speech", "replica": "0"}
    assert value(found, "vllm_omni:audio_ttfp_s_count", **place) == 1
    assert value(found, "vllm_omni:generation_tokens_total", **place) == 3
    assert value(found, "vllm_omni:requests_success_total", finished_reason="stop", **place) == 1
    assert value(found, "vllm_omni:audio_continuity_ok_total", threshold_ms="100", **place) == 1


@pytest.mark.parametrize(("num_chunks", "stage"), [(0, "start"), (2, "stream")])
@pytest.mark.parametrize("way", ["failed", "aborted"])
async def test_a_stream_that_is_not_counts_as_such(num_chunks: int, stage: str, way: str) -> None:
    metrics = Metrics()
    if way == "failed":
        with pytest.raises(EngineError):
            await listen(metrics, spoken(num_chunks, breaks=True))
    elif num_chunks:
        await listen(metrics, spoken(10), num_chunks)
    else:
        await leave_early(metrics)
    labels = {"model": MODEL, "voice": "uploaded", "format": "-", "stage": stage}
    assert value(metrics.registry, f"antiphon_speech_{way}_total", **labels) == 1
    assert value(metrics.registry, "antiphon_real_time_factor_count", model=MODEL) == 0


async def leave_early(metrics: Metrics) -> None:
    async def never() -> SpeechStream:
        await asyncio.Event().wait()
        yield Ended("stop")

    listening = asyncio.create_task(listen(metrics, never()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert value(metrics.registry, "antiphon_speech_waiting", model=MODEL) == 1
    listening.cancel()
    await asyncio.wait([listening])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=8))
async def test_gauges_return_to_zero(streams: list[tuple[bool, int]]) -> None:
    metrics = Metrics()

    async def one(breaks: bool, num_items: int) -> None:
        with suppress(EngineError):
            await listen(metrics, spoken(3, breaks=breaks), num_items)

    await asyncio.gather(*(one(*each) for each in streams))
    for name in ("antiphon_speech_active", "antiphon_speech_waiting"):
        assert value(metrics.registry, name, model=MODEL) == 0
    place = {"model_name": MODEL, "stage": "speech", "replica": "0"}
    for name in ("vllm_omni:num_requests_running", "vllm_omni:num_requests_waiting"):
        assert value(metrics.registry, name, **place) == 0


class Clock:
    """Milliseconds that pass only when they are told to."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> float:
        return self.now_ms / 1000


@given(st.lists(st.tuples(MILLISECONDS, MILLISECONDS), min_size=1, max_size=20))
def test_gaps_are_what_a_listener_without_buffer_hears(chunks: list[tuple[int, int]]) -> None:
    clock, heard_ms = Clock(), list[int]()
    meter = StreamStats(clock, lambda duration_s, _: heard_ms.append(round(duration_s * 1000)))
    first_ms = played_until_ms = None
    gaps_ms = 0
    for wait_ms, audio_ms in chunks:
        clock.now_ms += wait_ms
        if audio_ms:  # else frames came that are not heard yet
            if first_ms is None or played_until_ms is None:
                first_ms = played_until_ms = clock.now_ms
            gap_ms = max(0, clock.now_ms - played_until_ms)
            gaps_ms += gap_ms
            played_until_ms += gap_ms + audio_ms
        meter.record_chunk(audio_ms / 1000)
        meter.ask()
    assert meter.underrun_s == pytest.approx(gaps_ms / 1000)
    assert meter.first_audio_s == (None if first_ms is None else pytest.approx(first_ms / 1000))
    assert heard_ms == [audio_ms for _, audio_ms in chunks if audio_ms]
    assert meter.busy_s == pytest.approx(sum(wait for wait, _ in chunks) / 1000)


def test_a_slow_listener_makes_no_gaps_and_no_work() -> None:
    clock = Clock()
    meter = StreamStats(clock)
    for _ in range(5):
        clock.now_ms += 10
        meter.record_chunk(0.1)
        clock.now_ms += 5000  # it plays, and reads on much later
        meter.ask()
    assert (meter.num_underruns, meter.underrun_s) == (0, 0)
    assert meter.real_time_factor == pytest.approx(0.1)


@pytest.mark.parametrize("comes_after_ms", [300, 2000])
def test_waiting_for_text_is_no_gap_and_no_work(comes_after_ms: int) -> None:
    clock = Clock()
    stats = StreamStats(clock)
    stats.wait(True)
    clock.now_ms += 700  # the first word is late
    stats.wait(False)
    for _ in range(3):
        clock.now_ms += 40
        stats.record_chunk(1.0)
        stats.ask()
        stats.wait(True)
        stats.wait(True)
        clock.now_ms += comes_after_ms
        stats.wait(False)
    clock.now_ms += 10
    stats.end(Ended("stop", Usage(1, 3)))
    assert stats.first_audio_s == pytest.approx(0.04)
    assert (stats.num_underruns, stats.underrun_s) == (0, 0)
    assert stats.real_time_factor == pytest.approx((3 * 0.04 + 0.01) / 3)
    assert (stats.reason, stats.usage) == ("stop", Usage(1, 3))


def test_a_gap_that_the_model_makes_after_waiting_counts() -> None:
    clock = Clock()
    stats = StreamStats(clock)
    stats.record_chunk(1.0)
    stats.ask()
    stats.wait(True)
    clock.now_ms += 300
    stats.wait(False)  # long before the listener has run out of audio
    clock.now_ms += 900
    stats.record_chunk(1.0)
    assert stats.num_underruns == 1
    assert stats.underrun_s == pytest.approx(0.2)
    assert stats.busy_s == pytest.approx(0.9)


def test_a_scrape_does_not_wait_for_a_process_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "MAX_ASKED_S", 0.01)
    metrics = Metrics(tmp_path)

    async def processes() -> Sequence[ProcessState]:
        await asyncio.Event().wait()
        return ()

    metrics.processes = processes
    assert b"antiphon_process_up" not in asyncio.run(metrics.exposition())


REFUSALS_AND_FAULTS = pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InvalidRequestError("wrong"), "refused"),
        (OverloadedError("full", retry_after_s=1.0), "refused"),
        (EngineError("broken"), "error"),
    ],
)


@REFUSALS_AND_FAULTS
def test_a_refused_stream_is_no_failure(error: Exception, reason: str) -> None:
    metrics = Metrics()
    with suppress(type(error)), metrics.observe(MODEL):
        raise error
    found, num_failed = metrics.registry, float(reason == "error")
    assert value(found, "antiphon_speech_ended_total", model=MODEL, reason=reason) == 1
    fault = {"voice": "builtin", "format": "-", "stage": "start"}
    assert value(found, "antiphon_speech_failed_total", model=MODEL, **fault) == num_failed
    place = {"model_name": MODEL, "stage": "speech", "replica": "0"}
    failed = value(found, "vllm_omni:requests_failed_total", reason="error", **place)
    assert failed == num_failed
    assert value(found, "vllm_omni:num_requests_waiting", **place) == 0


@REFUSALS_AND_FAULTS
def test_a_refused_picture_is_no_failure(error: Exception, reason: str) -> None:
    registry = CollectorRegistry()
    metrics = PictureMetrics(registry)
    with suppress(type(error)), metrics.observe("image", MODEL):
        raise error
    labels = {"task": "image", "model": MODEL}
    for each in ("refused", "error"):
        count = registry.get_sample_value(
            "antiphon_pictures_ended_total", {**labels, "reason": each}
        )
        assert count == (1.0 if each == reason else None)
    assert registry.get_sample_value("antiphon_pictures_active", labels) == 0.0
