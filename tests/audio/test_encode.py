import gc
import io
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.audio.encode import Encoder, open_encoder, whole_file
from antiphon.audio.wav import pcm16, wav_header
from antiphon.contracts.types import Samples
from antiphon.errors import EngineError
from antiphon.formats import AudioFormat

COMPRESSED = [AudioFormat.MP3, AudioFormat.OPUS, AudioFormat.AAC, AudioFormat.FLAC]
RATES_HZ = [8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 8001, 23999, 47999]

# A stream cannot tell decoders what the encoder put before and after: its look-ahead and what
# fills the last frame.
MAX_PADDING_SAMPLES = {AudioFormat.MP3: 1105 + 1152, AudioFormat.AAC: 2 * 1024}
# How much 24 kHz audio must have come in when the first of it can be heard.
FIRST_SOUND_MS = {
    AudioFormat.MP3: 80,
    AudioFormat.OPUS: 40,
    AudioFormat.AAC: 110,
    AudioFormat.FLAC: 40,
    AudioFormat.WAV: 10,
    AudioFormat.PCM: 10,
}


def tone(sample_rate_hz: int, duration_s: float, frequency_hz: float = 440.0) -> Samples:
    time_s = np.arange(int(duration_s * sample_rate_hz)) / sample_rate_hz
    return (0.5 * np.sin(2 * np.pi * frequency_hz * time_s)).astype(np.float32)


def voice_like(num_samples: int) -> Samples:
    time_s = np.arange(num_samples) / 24000
    noise = np.random.default_rng(3).standard_normal(num_samples)
    return (0.3 * np.sin(1400 * time_s) * np.sin(9 * time_s) + 0.02 * noise).astype(np.float32)


def encoded(encoder: Encoder, samples: Samples) -> bytes:
    return encoder.encode(samples) + encoder.finish()


def decoded(file: bytes, format: AudioFormat) -> tuple[Samples, int]:
    """Return the samples and the sample rate that a player would hear; raw PCM is at 24 kHz."""
    if format is AudioFormat.PCM:
        file = wav_header(24000, None) + file
    with av.open(io.BytesIO(file), "r") as container:
        rate_hz = container.streams.audio[0].rate
        frames = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    samples = np.concatenate([np.zeros(0, np.float32), *frames])
    is_integer = bool(frames) and frames[0].dtype == np.int16
    return (samples / 32767 if is_integer else samples).astype(np.float32), rate_hz


def num_heard(file: bytes, format: AudioFormat) -> int:
    """Return how many samples a player can make of the beginning of a file."""
    try:
        return len(decoded(file, format)[0])
    except (av.error.InvalidDataError, av.error.EOFError):
        return 0


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> None:
    """Leave what tests before have loaded out of collections: torch alone makes each take long."""
    gc.collect()
    gc.freeze()


def num_codecs() -> int:
    kinds = (av.AudioStream, av.AudioCodecContext, av.container.OutputContainer)
    # Not isinstance: it asks strangers for __class__, and some objects of torch warn at that.
    return sum(issubclass(type(thing), kinds) for thing in gc.get_objects())


@pytest.mark.parametrize("sample_rate_hz", RATES_HZ)
@pytest.mark.parametrize("format", [*COMPRESSED, AudioFormat.WAV])
def test_a_file_sounds_like_what_was_encoded(format: AudioFormat, sample_rate_hz: int) -> None:
    source = tone(sample_rate_hz, 1.0)
    samples, rate_hz = decoded(encoded(open_encoder(format, sample_rate_hz), source), format)

    assert rate_hz >= sample_rate_hz
    num_extra = len(samples) - rate_hz * len(source) / sample_rate_hz
    assert -1 <= num_extra <= MAX_PADDING_SAMPLES.get(format, 1)
    middle = samples[rate_hz // 4 : rate_hz * 3 // 4]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) * rate_hz / len(middle) == pytest.approx(440, abs=3)
    # At some rates LAME lowers the level by 5 %, so that peaks stay in bounds.
    assert np.std(middle) == pytest.approx(0.5 / np.sqrt(2), rel=0.06)


@pytest.mark.parametrize("format", [AudioFormat.MP3, AudioFormat.AAC])
@pytest.mark.parametrize("num_samples", [24_000, 24_001, 24_321, 24_575, 25_000])
def test_padding_at_24_khz_is_at_most_70_ms(format: AudioFormat, num_samples: int) -> None:
    source = voice_like(num_samples)
    samples, rate_hz = decoded(encoded(open_encoder(format, 24000), source), format)
    assert len(samples) / rate_hz == pytest.approx(num_samples / 24000, abs=0.0701)


@pytest.mark.parametrize("format", [AudioFormat.FLAC, AudioFormat.WAV, AudioFormat.PCM])
def test_lossless_formats_hold_the_same_integers(format: AudioFormat) -> None:
    source = 1.2 * voice_like(5000)
    samples, _ = decoded(encoded(open_encoder(format, 24000), source), format)
    assert pcm16(samples) == pcm16(source)


@pytest.mark.parametrize("format", AudioFormat)
@settings(max_examples=20, deadline=None)
@given(
    sample_rate_hz=st.sampled_from([16000, 24000, 23999]),
    num_samples=st.integers(0, 8000),
    lengths=st.lists(st.integers(0, 2500), min_size=1, max_size=9),
)
def test_bytes_do_not_depend_on_how_the_samples_are_cut(
    format: AudioFormat, sample_rate_hz: int, num_samples: int, lengths: list[int]
) -> None:
    samples = voice_like(num_samples)
    encoder = open_encoder(format, sample_rate_hz)
    pieces = np.split(samples, np.minimum(np.cumsum(lengths), num_samples))
    streamed = b"".join([*map(encoder.encode, pieces), encoder.finish()])
    assert streamed == encoded(open_encoder(format, sample_rate_hz), samples)


@pytest.mark.parametrize("format", AudioFormat)
def test_the_first_sound_leaves_early(format: AudioFormat) -> None:
    encoder = open_encoder(format, 24000)
    num_needed = FIRST_SOUND_MS[format] * 24
    assert num_heard(encoder.encode(voice_like(num_needed)), format) > 0


@pytest.mark.parametrize("format", AudioFormat)
def test_what_was_encoded_is_soon_on_its_way(format: AudioFormat) -> None:
    """Bytes never pile up inside: at any moment, at most 200 ms of audio are missing."""
    encoder = open_encoder(format, 24000)
    sent = b""
    for start in range(0, 24000, 4800):
        sent += encoder.encode(tone(24000, 1.0)[start : start + 4800])
        samples, rate_hz = decoded(sent, format)
        assert len(samples) / rate_hz > start / 24000


@pytest.mark.parametrize("format", COMPRESSED)
@pytest.mark.parametrize("sample_rate_hz", [24000, 10000])
def test_a_file_of_nothing_can_be_played(format: AudioFormat, sample_rate_hz: int) -> None:
    samples, rate_hz = decoded(open_encoder(format, sample_rate_hz).finish(), format)
    assert len(samples) / rate_hz < 0.25
    assert np.abs(samples).max(initial=0) < 1e-3


def test_wav_and_pcm_of_nothing_are_their_headers() -> None:
    assert open_encoder(AudioFormat.PCM, 24000).finish() == b""
    assert open_encoder(AudioFormat.WAV, 24000).finish() == wav_header(24000, None)
    assert whole_file(AudioFormat.WAV, 8000, voice_like(0)) == wav_header(8000, 0)


def test_a_wav_that_is_whole_tells_its_length() -> None:
    samples = voice_like(777)
    assert whole_file(AudioFormat.WAV, 16000, samples) == wav_header(16000, 777) + pcm16(samples)


@pytest.mark.parametrize("format", AudioFormat)
def test_what_is_no_number_never_becomes_sound(format: AudioFormat) -> None:
    encoder = open_encoder(format, 24000)
    before = encoder.encode(voice_like(3000))
    with pytest.raises(EngineError):
        encoder.encode(np.array([0.1, np.nan, 0.1], np.float32))
    # The stream is as it was: nothing of the refused samples is inside.
    expected = encoded(open_encoder(format, 24000), voice_like(3000))
    assert before + encoder.finish() == expected


@pytest.mark.parametrize("format", AudioFormat)
def test_a_stream_may_be_abandoned_at_any_moment(format: AudioFormat) -> None:
    for num_samples in (0, 10, 5000):
        encoder = open_encoder(format, 24000)
        encoder.encode(voice_like(num_samples))
        encoder.close()
        encoder.close()
    finished = open_encoder(format, 24000)
    finished.finish()
    finished.close()


@pytest.mark.parametrize("format", COMPRESSED)
@pytest.mark.parametrize("is_finished", [True, False])
def test_the_codec_is_freed_at_once(format: AudioFormat, is_finished: bool) -> None:
    gc.collect()
    gc.disable()  # what only the collector frees may stay for minutes
    try:
        before = num_codecs()
        encoder = open_encoder(format, 24000)
        encoder.encode(voice_like(5000))
        assert num_codecs() > before
        if is_finished:
            encoder.finish()
        else:
            encoder.close()
        assert num_codecs() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("format", COMPRESSED)
def test_an_encoder_that_nobody_closed_is_freed_too(format: AudioFormat) -> None:
    gc.collect()
    before = num_codecs()
    for _ in range(5):
        open_encoder(format, 24000).encode(voice_like(5000))
    gc.collect()
    assert num_codecs() == before


@pytest.mark.parametrize("format", COMPRESSED)
def test_encoders_in_two_threads_are_independent(format: AudioFormat) -> None:
    def file(frequency_hz: float) -> bytes:
        source = tone(24000, 2.0, frequency_hz)
        encoder = open_encoder(format, 24000)
        return b"".join([*map(encoder.encode, np.split(source, 100)), encoder.finish()])

    frequencies_hz = [220.0, 330.0, 440.0, 550.0]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(file, frequencies_hz))
    assert together == [file(frequency_hz) for frequency_hz in frequencies_hz]
    assert len(set(together)) == len(frequencies_hz)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads through /proc")
def test_encoders_start_no_threads() -> None:
    def num_threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = num_threads()
    encoders = [open_encoder(format, 24000) for format in COMPRESSED]
    for encoder in encoders:
        encoder.encode(voice_like(5000))
    assert num_threads() == before


def test_formats_say_what_they_are() -> None:
    assert {str(format): format.media_type for format in AudioFormat} == {
        "mp3": "audio/mpeg",
        "opus": "audio/ogg",
        "aac": "audio/aac",
        "flac": "audio/flac",
        "wav": "audio/wav",
        "pcm": "audio/pcm",
    }
