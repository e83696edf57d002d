"""The measurement itself: frames are counted, and known times give known figures."""

import asyncio
from typing import Any

import numpy as np
import pytest

from antiphon.config import ModelSettings
from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.types import AudioChunk
from antiphon_bench.engine import TEXT, Load, StreamTimes, frame_products, run, summarize, text_for
from antiphon_bench.random_model import random_checkpoint, shortened


def test_known_times_give_known_figures() -> None:
    times = [
        StreamTimes(0.0, [0.1, 4.0], [4.0, 4.0], 100),
        StreamTimes(0.0, [0.3, 4.9], [4.0, 4.0], 100, num_restarts=2),
    ]
    result = summarize(times)
    assert (result.concurrency, result.num_frames, result.num_restarts) == (2, 200, 2)
    assert result.frame_ms == pytest.approx(49)
    assert result.real_time_factor == pytest.approx(0.6125)
    assert result.audio_s_per_s == pytest.approx(16 / 4.9)
    assert result.first_audio_ms.p50 == result.first_audio_ms_p50 == pytest.approx(200)
    assert result.playback.continuity == 0.5
    assert result.playback.underrun_s == pytest.approx(0.6)
    assert result.chunk_gap_ms is not None
    assert result.chunk_gap_ms.max == pytest.approx(4600)
    assert summarize(times[:1]).first_audio_ms_p95 == pytest.approx(100)


def test_a_stream_begins_with_its_first_sound() -> None:
    times = StreamTimes(0.0)
    for num_samples in (0, 0, 800, 0, 800):
        times.take(AudioChunk(np.zeros(num_samples, np.float32), 100, num_frames=4))
    assert times.num_frames == 20
    assert times.durations_s == [8.0, 8.0]
    silent = StreamTimes(0.0, num_frames=20)
    result = summarize([times, silent])
    assert result.num_frames == 40
    assert result.playback.continuity == 1.0
    assert result.first_audio_ms.max == times.arrivals_s[0] * 1000


def test_every_stream_makes_its_frames_even_if_its_text_is_short() -> None:
    settings = ModelSettings(source="toy")
    report = asyncio.run(run(settings, [Load(1, 10), Load(3, 1000)]))
    assert [each["concurrency"] for each in report["results"]] == [1, 3]
    first, second = report["results"]
    assert first["num_frames"] >= 10
    assert second["num_frames"] >= 3 * 1000
    assert second["audio_s_per_s"] > 0
    assert report["bound"] is None
    for kind in ("schedule", "launch", "update"):
        host = second["host_ms"][kind]
        assert host["num_steps"] >= 1000, "a stream makes a frame in a step"
        assert 0 < host["p50_ms"] <= host["p99_ms"]


@pytest.mark.slow  # checkpoints are made and measured
def test_random_weights_never_end_before_their_frames() -> None:
    with random_checkpoint("tiny", "custom_voice") as path:
        settings = ModelSettings(source=str(path), device="cpu", max_slots=2)
        products = frame_products(settings)
        report = asyncio.run(run(settings, [Load(2, 60)]))
    assert not path.exists(), "the checkpoint is still there"
    (result,) = report["results"]
    assert result["num_frames"] == 2 * 60
    assert result["num_restarts"] == 0
    # The predictor's layers are gone through once for each group after the first.
    times = [each.weight for each in products]
    assert times.count("talker.0.qkv") == 1
    assert times.count("predictor.0.qkv") == len({each for each in times if "head." in each})


def test_a_text_is_as_long_as_its_frames_need() -> None:
    assert text_for(200, has_real_tokens=True) == TEXT
    assert text_for(200, has_real_tokens=False) == shortened(TEXT)
    for num_frames in (1000, 3000):
        assert len(text_for(num_frames, has_real_tokens=False)) >= num_frames / 12
        assert len(text_for(num_frames, has_real_tokens=True)) >= 5 * num_frames / 12
    assert [shortened(each) for each in ("a", "12345", "123456")] == ["a", "1", "12"]


def test_texts_that_end_too_early_are_begun_again_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def drawing_no_end(**members: Any) -> SpeechCapabilities:
        return SpeechCapabilities(**{**members, "draws_end": False})

    monkeypatch.setattr("antiphon.families.toy.prompt.SpeechCapabilities", drawing_no_end)
    report = asyncio.run(run(ModelSettings(source="toy"), [Load(2, 60, "la la")]))
    (result,) = report["results"]
    assert result["num_frames"] == 2 * 60
    assert result["num_restarts"] == 2 * 5  # a text is ten frames
