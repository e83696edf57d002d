"""Each defect is planted into clean speech and found; clean speech has none."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.audio.utterance import collect
from antiphon.contracts.types import SpeechRequest
from antiphon_bench.quality.defects import defects_of
from antiphon_bench.quality.recording import SpeechRecording
from tests.loops import on_a_loop
from tests.speeches import loaded

RATE_HZ = 24_000
Signal = NDArray[np.float64]


@pytest.fixture(scope="module")
@on_a_loop
async def speech() -> Signal:
    text = "Please call Stella and ask her to bring these things from the store."
    async with loaded("hibari") as service:
        spoken = await collect(service.stream(SpeechRequest(text, seed=1)))
    return spoken.samples.astype(np.float64)


def found(signal: Signal, rate_hz: int = RATE_HZ) -> dict[str, float]:
    defects = defects_of(SpeechRecording("it", (signal,), rate_hz))
    return {name: float(getattr(defects, name)) for name in defects.__slots__}


def loudest(signal: Signal) -> int:
    levels = np.convolve(signal**2, np.ones(480), "same")
    return int(levels.argmax())


def test_clean_speech_has_no_defects(speech: Signal) -> None:
    clean = found(speech)
    for name in ("clipped_share", "clicks", "gaps", "repeats", "truncated"):
        assert clean[name] == 0, name
    assert abs(clean["dc_offset"]) < 0.001
    assert clean["leading_silence_s"] < 0.2
    assert -40 < clean["level_db"] < -10


def clipped(signal: Signal) -> Signal:
    return np.clip(signal * 8, -1, 1)


def offset(signal: Signal) -> Signal:
    return signal + 0.05


def clicking(signal: Signal) -> Signal:
    planted = signal.copy()
    planted[loudest(signal)] += 0.5
    return planted


def gapped(signal: Signal) -> Signal:
    at = loudest(signal)
    return np.concatenate([signal[:at], np.zeros(480), signal[at:]])


def repeating(signal: Signal) -> Signal:
    """Half a second comes again after something else, so that no border tells it."""
    at = loudest(signal)
    return np.concatenate([signal[: at + 9600], signal[at - 2400 : at + 9600], signal[at + 9600 :]])


def cut_off(signal: Signal) -> Signal:
    return signal[: loudest(signal)]


@pytest.mark.parametrize(
    ("plant", "name", "least"),
    [
        (clipped, "clipped_share", 0.005),
        (offset, "dc_offset", 0.045),
        (clicking, "clicks", 1),
        (gapped, "gaps", 1),
        (repeating, "repeats", 1),
        (cut_off, "truncated", 1),
    ],
)
def test_a_planted_defect_is_found(
    speech: Signal, plant: Callable[[Signal], Signal], name: str, least: float
) -> None:
    assert found(plant(speech))[name] >= least


def test_silence_is_measured(speech: Signal) -> None:
    at = loudest(speech)
    pause = np.zeros(RATE_HZ)
    quiet = np.concatenate([pause, speech[:at], pause, speech[at:], pause, pause])
    before, after = found(speech), found(quiet)
    for name, more_s in (("leading_silence_s", 1), ("trailing_silence_s", 2)):
        assert after[name] - before[name] == pytest.approx(more_s, abs=0.03)
    assert after["longest_pause_s"] == pytest.approx(1.0, abs=0.05)
    assert after["level_db"] == pytest.approx(before["level_db"], abs=0.5)
    share = (before["silence_share"] * len(speech) + 4 * RATE_HZ) / len(quiet)
    assert after["silence_share"] == pytest.approx(share, abs=0.02)


def test_silence_alone_is_no_speech() -> None:
    silent = found(np.zeros(RATE_HZ))
    assert silent["silence_share"] == 1
    assert silent["clicks"] == silent["repeats"] == 0
