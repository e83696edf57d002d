"""Recordings without a voice are refused; speech passes, however quiet."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon import Antiphon
from antiphon.audio.decode import decode_audio
from antiphon.audio.sound_check import check_sound
from antiphon.contracts.types import Samples, SpeechRequest
from antiphon.errors import InvalidRequestError
from tests.recordings import TIMES_S as T
from tests.recordings import Signal, without_voice

RATE_HZ = 24_000
GRADIO = find_spec("gradio")
SPOKEN = ("cate_blanch.mp3", "cate_blanch_2.mp3", "heath_ledger.mp3", "recording1.wav")


def check(samples: Signal, min_duration_s: float = 1.0) -> None:
    check_sound(samples.astype(np.float32), RATE_HZ, min_duration_s)


def at_level(samples: Samples, level_dbfs: float) -> NDArray[np.float64]:
    """Return samples in 16 bits whose root mean square has a level."""
    rms = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    return np.round(samples * (10 ** (level_dbfs / 20) / rms) * 32768) / 32768


@pytest.mark.parametrize("name", without_voice())
@pytest.mark.parametrize("min_duration_s", [0.0, 1.0])
def test_what_holds_no_voice_is_refused(name: str, min_duration_s: float) -> None:
    with pytest.raises(InvalidRequestError, match="no speech to imitate") as caught:
        check(without_voice()[name], max(min_duration_s, 1.0 if "short" in name else 0.0))
    assert caught.value.param == "ref_audio"


@pytest.mark.parametrize("num_samples", [0, 1, 100])
def test_next_to_no_samples_are_silent(num_samples: int) -> None:
    with pytest.raises(InvalidRequestError, match="silent"):
        check(np.ones(num_samples))


@pytest.fixture(scope="module")
def spoken() -> Samples:
    with Antiphon.load("hibari") as antiphon:
        return antiphon.speech(
            SpeechRequest("The tide comes in at seven, and we are late.")
        ).samples


LEVELS_DBFS = (-15.0, -30.0, -50.0, -60.0)


@pytest.mark.parametrize("level_dbfs", LEVELS_DBFS)
@pytest.mark.parametrize(
    "changed",
    [
        lambda samples: samples,
        lambda samples: samples + np.random.default_rng(0).integers(-1, 2, len(samples)) / 32768,
        lambda samples: samples + 0.3,
        lambda samples: np.concatenate([np.zeros(5 * RATE_HZ), samples, np.zeros(5 * RATE_HZ)]),
    ],
    ids=["alone", "dither", "offset", "silence around"],
)
def test_speech_passes_at_any_level(
    spoken: Samples, level_dbfs: float, changed: Callable[[Signal], Signal]
) -> None:
    check(changed(at_level(spoken, level_dbfs)))


def test_speech_over_hum_and_noise_passes(spoken: Samples) -> None:
    times_s = np.arange(len(spoken)) / RATE_HZ
    hum = 0.01 * sum(np.sin(2 * np.pi * 50 * k * times_s) / k for k in range(1, 12))
    noise = np.random.default_rng(0).normal(0, 0.001, len(spoken))
    check(at_level(spoken, -30) + hum + noise)


@pytest.mark.parametrize("start_s", [0.0, 0.5, 1.0])
def test_a_short_recording_needs_sound_in_half_of_it(spoken: Samples, start_s: float) -> None:
    check(spoken[round(start_s * RATE_HZ) :][: round(1.1 * RATE_HZ)])


@pytest.mark.skipif(GRADIO is None, reason="needs the recordings that Gradio ships")
@pytest.mark.parametrize("level_dbfs", LEVELS_DBFS)
@pytest.mark.parametrize("name", SPOKEN)
def test_recordings_of_people_pass(name: str, level_dbfs: float) -> None:
    assert GRADIO is not None
    assert GRADIO.origin is not None
    path = Path(GRADIO.origin).parent / "media_assets/audio" / name
    samples = decode_audio(path.read_bytes(), sample_rate_hz=RATE_HZ, max_duration_s=30)
    check(at_level(samples, level_dbfs))


def test_sound_that_is_there_half_of_the_time_is_constant_too() -> None:
    with pytest.raises(InvalidRequestError, match="constant"):
        check(np.where((T > 1) & (T < 3), 0.3 * np.sin(2 * np.pi * 440 * T), 0))
