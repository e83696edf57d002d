"""A recording is encoded once for each purpose, and told apart by its samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.prompt import Encode
from antiphon.contracts.types import Voice
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.cloned_voices import (
    CloningPrompter,
    Recording,
    RecordingLimits,
    known_text,
    warm_up_samples,
)


def preparer_of(encode: Encode, max_cached: int = 64) -> CloningPrompter:
    capabilities = SpeechCapabilities(sample_rate_hz=100, voices=(Voice(id="a", name="A"),))
    preparer = CloningPrompter(capabilities, "any", ("a", "b"), max_cached)
    preparer.use_encoder(encode)
    return preparer


def test_features_are_cached_by_recording_and_name() -> None:
    sent: list[tuple[int, tuple[str, ...]]] = []

    def encode(recording: Recording) -> Mapping[str, Any]:
        sent.append((len(recording.samples), recording.wanted))
        return {name: np.array(len(sent)) for name in recording.wanted}

    preparer = preparer_of(encode, max_cached=3)
    one, other = warm_up_samples(100), warm_up_samples(200)
    assert preparer.features(one, ["a"]) == {"a": 1}
    assert preparer.features(one.copy(), ["a"]) == {"a": 1}
    assert preparer.features(one, ["a", "b"]) == {"a": 1, "b": 2}
    assert preparer.features(other, ["a", "b"]) == {"a": 3, "b": 3}
    assert preparer.features(one, ["b"]) == {"b": 2}
    assert preparer.features(one, ["a"]) == {"a": 4}  # the oldest was dropped
    assert sent == [(100, ("a",)), (100, ("b",)), (200, ("a", "b")), (100, ("a",))]
    preparer.warm_encoder()
    assert sent.pop() == (100, ("a", "b"))


def test_a_failure_is_not_cached() -> None:
    outcomes = [InvalidRequestError("Too short.", param="ref_audio"), None]

    def encode(recording: Recording) -> Mapping[str, Any]:
        if error := outcomes.pop(0):
            raise error
        return {name: np.ones(1) for name in recording.wanted}

    preparer = preparer_of(encode)
    with pytest.raises(InvalidRequestError):
        preparer.features(warm_up_samples(100), ["a", "b"])
    assert list(preparer.features(warm_up_samples(100), ["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize(
    ("limits", "num_samples", "message"),
    [
        (RecordingLimits(100, 30, 0.5), 49, "0.49 seconds of audio. Must be 0.5 to 30 seconds."),
        (RecordingLimits(100, 30, 0.5), 3001, "30.01 seconds of audio. Must be 0.5 to 30 seconds."),
        (RecordingLimits(100, 60), 0, "0 seconds of audio. Must be more than 0 and at most 60"),
        (RecordingLimits(48_000, 60, 1 / 16_000), 2, "Must be more than 0 and at most 60 seconds."),
    ],
)
def test_a_recording_of_a_wrong_length_is_refused(
    limits: RecordingLimits, num_samples: int, message: str
) -> None:
    recording = Recording(np.zeros(num_samples, np.float32), ("a",), "prompt_audio")
    with pytest.raises(InvalidRequestError, match=r"^Invalid 'prompt_audio': ") as caught:
        limits.check(recording)
    assert message in caught.value.message
    assert caught.value.param == "prompt_audio"


def test_limits_are_accepted() -> None:
    limits = RecordingLimits(44_100, 30, 0.05)
    for num_samples in (2205, 30 * 44_100):
        limits.check(Recording(np.zeros(num_samples, np.float32), ("a",)))


def test_encoders_are_warmed_with_the_same_noise_every_time() -> None:
    samples = warm_up_samples(12_000)
    assert samples.dtype == np.float32
    assert len(samples) == 12_000
    assert 0.05 < samples.std() < 0.2
    np.testing.assert_array_equal(samples, warm_up_samples(12_000))


def test_a_blank_text_is_one_that_is_not_known() -> None:
    assert [known_text(each) for each in (None, "", " \n", " So. ")] == [None, None, None, " So. "]
