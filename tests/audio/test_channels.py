"""Two channels: the same however they are cut, each as it would be alone, interleaved in files."""

import io
from collections.abc import Callable

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.audio.chain import Chain, Transform
from antiphon.audio.encode import max_bytes_per_s, open_encoder, whole_file
from antiphon.audio.joining import Joiner
from antiphon.audio.resample import Resampler
from antiphon.audio.stretch import Stretcher
from antiphon.audio.wav import pcm16, wav_header
from antiphon.contracts.types import Samples
from antiphon.formats import AudioFormat

RATE_HZ = 24_000
LENGTHS = st.lists(st.integers(0, 2500), min_size=1, max_size=9)
TRANSFORMS: dict[str, Callable[[int], Transform]] = {
    "resampler": lambda channels: Resampler(RATE_HZ, 16_000, channels),
    "slow": lambda channels: Stretcher(RATE_HZ, 0.7, channels),
    "fastest": lambda channels: Stretcher(RATE_HZ, 4.0, channels),
    "chain": lambda channels: Chain(RATE_HZ, 16_000, 1.3, channels),
    "identity": lambda channels: Chain(RATE_HZ, RATE_HZ, 1.0, channels),
}


def voice_like(num_samples: int, seed: int = 3) -> Samples:
    time_s = np.arange(num_samples) / RATE_HZ
    noise = np.random.default_rng(seed).standard_normal(num_samples)
    tone = 0.3 * np.sin(1400 * time_s + seed) * np.sin(9 * time_s)
    return (tone + 0.02 * noise).astype(np.float32)


def stereo(num_samples: int) -> Samples:
    return np.stack([voice_like(num_samples), voice_like(num_samples, seed=4)], axis=1)


def pieces(samples: Samples, lengths: list[int]) -> list[Samples]:
    return np.split(samples, np.minimum(np.cumsum(lengths), len(samples)))


def transformed(transform: Transform, cut: list[Samples]) -> Samples:
    return np.concatenate([*map(transform.push, cut), transform.flush()])


@pytest.mark.parametrize("name", TRANSFORMS)
@settings(max_examples=10, deadline=None)
@given(num_samples=st.integers(0, 9000), lengths=LENGTHS)
def test_transforms_do_not_depend_on_how_the_input_is_cut(
    name: str, num_samples: int, lengths: list[int]
) -> None:
    samples = stereo(num_samples)
    whole = transformed(TRANSFORMS[name](2), [samples])
    assert whole.shape[1:] == (2,)
    assert whole.dtype == np.float32
    streamed = transformed(TRANSFORMS[name](2), pieces(samples, lengths))
    np.testing.assert_array_equal(streamed, whole)


def test_each_channel_is_resampled_as_if_alone() -> None:
    samples = stereo(9000)
    whole = transformed(Resampler(RATE_HZ, 16_000, 2), [samples])
    for channel in (0, 1):
        alone = transformed(Resampler(RATE_HZ, 16_000), [np.ascontiguousarray(samples[:, channel])])
        np.testing.assert_array_equal(whole[:, channel], alone)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_channels_stay_in_step(name: str) -> None:
    """A stretcher cuts both at the same places: a louder and a softer copy stay copies."""
    mono = voice_like(9000)
    alone = transformed(TRANSFORMS[name](1), [mono])
    both = transformed(TRANSFORMS[name](2), [np.stack([mono, mono / 2], axis=1)])
    np.testing.assert_array_equal(both, np.stack([alone, alone / 2], axis=1))


@given(piece=st.integers(1, 90), pause_s=st.sampled_from([0.0, 0.01, 0.1]))
def test_each_channel_is_joined_as_if_alone(piece: int, pause_s: float) -> None:
    def joined(segments: list[Samples], channels: int) -> Samples:
        joiner = Joiner(8000, channels)
        parts = []
        for index, samples in enumerate(segments):
            parts.append(joiner.begin(pause_s if index else None, has_next=index == 0))
            parts += [joiner.push(part) for part in pieces(samples, [piece] * 10)]
            parts.append(joiner.end(has_next=index == 0))
        return np.concatenate(parts)

    segments = [stereo(200), stereo(150)]
    segments[0][-50:] = 0.0  # quiet in both
    whole = joined(segments, 2)
    for channel in (0, 1):
        alone = joined([segment[:, channel] for segment in segments], 1)
        np.testing.assert_array_equal(whole[:, channel], alone)


def test_what_is_quiet_in_one_channel_only_is_no_pause() -> None:
    joiner = Joiner(8000, 2)
    joiner.begin(None, has_next=True)
    joiner.push(np.stack([np.ones(400), np.zeros(400)], axis=1).astype(np.float32))
    assert joiner.begin(0.1, has_next=False).shape == (800, 2)


def decoded(file: bytes, format: AudioFormat) -> tuple[Samples, int]:
    """Return ``[num_samples, 2]`` as a player hears them, and their rate."""
    if format is AudioFormat.PCM:
        file = wav_header(RATE_HZ, None, 2) + file
    with av.open(io.BytesIO(file), "r") as container:
        stream = container.streams.audio[0]
        assert stream.channels == 2
        resampler = av.AudioResampler("flt", "stereo", stream.rate)
        frames = [made for each in container.decode(stream) for made in resampler.resample(each)]
        samples = np.concatenate([frame.to_ndarray().reshape(-1, 2) for frame in frames])
        return samples, stream.rate


@pytest.mark.parametrize("format", AudioFormat)
@pytest.mark.parametrize("rate_hz", [16_000, 23_999, 48_000])
@settings(max_examples=5, deadline=None)
@given(num_samples=st.integers(0, 8000), lengths=LENGTHS)
def test_files_do_not_depend_on_how_the_samples_are_cut(
    format: AudioFormat, rate_hz: int, num_samples: int, lengths: list[int]
) -> None:
    samples = stereo(num_samples)
    streaming, at_once = open_encoder(format, rate_hz, 2), open_encoder(format, rate_hz, 2)
    streamed = [*map(streaming.encode, pieces(samples, lengths)), streaming.finish()]
    assert b"".join(streamed) == at_once.encode(samples) + at_once.finish()


@pytest.mark.parametrize("format", AudioFormat)
def test_channels_keep_their_places_in_a_file(format: AudioFormat) -> None:
    """A tone on the left, silence and then another tone on the right."""
    time_s = np.arange(RATE_HZ) / RATE_HZ
    left, right = (0.5 * np.sin(2 * np.pi * hz * time_s) for hz in (440, 1000))
    source = np.stack([left, right], axis=1).astype(np.float32)
    heard, rate_hz = decoded(whole_file(format, RATE_HZ, source), format)
    assert len(heard) == pytest.approx(rate_hz, abs=4096)
    for channel, frequency_hz in enumerate((440, 1000)):
        middle = heard[rate_hz // 4 : rate_hz * 3 // 4, channel]
        spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
        assert np.argmax(spectrum) * rate_hz / len(middle) == pytest.approx(frequency_hz, abs=3)
        assert np.std(middle) == pytest.approx(0.5 / np.sqrt(2), rel=0.1)


def test_samples_are_interleaved_behind_a_header_that_says_so() -> None:
    samples = stereo(77)
    file = whole_file(AudioFormat.WAV, RATE_HZ, samples)
    assert file == wav_header(RATE_HZ, 77, 2) + pcm16(samples)
    interleaved = np.frombuffer(file[44:], "<i2")
    assert interleaved[1::2].tobytes() == pcm16(samples[:, 1])


@pytest.mark.parametrize("format", AudioFormat)
def test_a_second_takes_no_more_bytes_than_is_predicted(format: AudioFormat) -> None:
    num_bytes = len(whole_file(format, RATE_HZ, stereo(4 * RATE_HZ))) / 4
    assert num_bytes < 1.1 * max_bytes_per_s(format, RATE_HZ, 2) + 1000
