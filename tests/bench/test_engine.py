"""The measurement itself: frames are counted, and known times give known figures."""

import asyncio

import pytest

from antiphon.bench.engine import Load, StreamTimes, run, summarize
from antiphon.config import ModelSettings


def test_known_times_give_known_figures() -> None:
    times = [StreamTimes(0.0, 0.1, 4.0, 8.0, 100), StreamTimes(0.0, 0.3, 4.0, 8.0, 100)]
    result = summarize(times)
    assert (result.concurrency, result.num_frames) == (2, 200)
    assert result.frame_ms == pytest.approx(40)
    assert result.real_time_factor == pytest.approx(0.5)
    assert result.audio_s_per_s == pytest.approx(4)
    assert result.first_audio_ms_p50 == pytest.approx(200)
    assert summarize(times[:1]).first_audio_ms_p95 == pytest.approx(100)


def test_every_stream_makes_its_frames_even_if_its_text_is_short() -> None:
    settings = ModelSettings(source="toy")
    report = asyncio.run(run(settings, [Load(1, 10), Load(3, 1000)]))
    assert [each["concurrency"] for each in report["results"]] == [1, 3]
    first, second = report["results"]
    assert first["num_frames"] >= 10
    assert second["num_frames"] >= 3 * 1000
    assert second["audio_s_per_s"] > 0
