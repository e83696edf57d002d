"""Built-in voices are brought to the loudness of the settings; ``off`` is the model's output."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from antiphon import Antiphon, SpeechRequest
from antiphon.config import SpeechSettings
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from tests.audio.ebur128 import loudness_of

TEXT = (
    "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background."
    " It's easy to tell the depth of a well. Four hours of steady work faced us."
)


@pytest.fixture(scope="module")
def hibari() -> Iterator[Antiphon]:
    with Antiphon.load("hibari") as antiphon:
        yield antiphon


def speak(antiphon: Antiphon, **fields: object) -> Samples:
    request = SpeechRequest(TEXT, seed=1, **fields)  # type: ignore[arg-type]
    return antiphon.speech(request).samples


@pytest.mark.parametrize("target", [-23.0, -18.0, -16.0])
def test_the_loudness_is_the_wanted_one(hibari: Antiphon, target: float) -> None:
    lufs, peak_dbtp = loudness_of(speak(hibari, loudness_lufs=target), 24000)
    assert abs(lufs - target) < 1
    assert peak_dbtp <= -1


def test_the_default_is_that_of_the_settings(hibari: Antiphon) -> None:
    default = SpeechSettings().loudness_lufs
    assert np.array_equal(speak(hibari), speak(hibari, loudness_lufs=default))
    off = speak(hibari, loudness_lufs="off")
    assert not np.array_equal(off, speak(hibari))
    assert loudness_of(off, 24000)[0] < -24


def test_a_stream_is_the_file(hibari: Antiphon) -> None:
    streamed = [chunk.samples for chunk in hibari.stream(SpeechRequest(TEXT, seed=1))]
    assert np.array_equal(np.concatenate(streamed), speak(hibari))


def test_impossible_loudness_is_refused(hibari: Antiphon) -> None:
    with pytest.raises(InvalidRequestError, match="'loudness_lufs'"):
        speak(hibari, loudness_lufs=-5.0)


def pauses_of(samples: Samples, least_ms: int) -> Sequence[float]:
    """Return the lengths of the silences within audio, in milliseconds."""
    edges = np.flatnonzero(np.abs(samples) > 10 ** (-50 / 20))
    gaps = np.diff(edges) / 24
    return [float(gap) for gap in gaps if gap >= least_ms]


@pytest.mark.parametrize("pause_ms", [100, 700])
def test_sentences_are_as_far_apart_as_asked(hibari: Antiphon, pause_ms: int) -> None:
    samples = speak(hibari, loudness_lufs="off", sentence_pause_ms=pause_ms)
    pauses = sorted(pauses_of(samples, 50))[-3:]
    assert all(abs(pause - pause_ms) < 120 for pause in pauses)
