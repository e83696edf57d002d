"""A whole file tells how long it is; a stream says that nobody knows yet. The audio is the same."""

import hashlib
import io

import numpy as np
import pytest
import soundfile

from antiphon.audio.encode import open_encoder, whole_file, with_header
from antiphon.audio.wav import pcm16
from antiphon.contracts.types import Samples
from antiphon.formats import AudioFormat
from tests.audio.files import spoken
from tests.decoding import decoded, same_audio, told_length

TELLING = [AudioFormat.MP3, AudioFormat.OPUS, AudioFormat.FLAC, AudioFormat.WAV]
"""The formats whose files tell their length: ADTS and bare samples have no place for it."""
RATE_HZ = 24_000
STREAMINFO = slice(8, 42)


def noise(num_samples: int) -> Samples:
    return np.random.default_rng(5).uniform(-0.3, 0.3, num_samples).astype(np.float32)


def cut(format: AudioFormat, samples: Samples, num_pieces: int) -> tuple[list[bytes], bytes]:
    encoder = open_encoder(format, RATE_HZ, is_whole=True)
    pieces = [*map(encoder.encode, np.array_split(samples, num_pieces)), encoder.finish()]
    return [piece for piece in pieces if piece], encoder.header


@pytest.mark.parametrize("num_samples", [100, 960, 24_000, 120_321])
@pytest.mark.parametrize("format", TELLING)
def test_a_whole_file_tells_its_length_to_the_sample(format: AudioFormat, num_samples: int) -> None:
    file = whole_file(format, RATE_HZ, noise(num_samples))
    assert told_length(file, RATE_HZ) == num_samples
    assert len(soundfile.read(io.BytesIO(file))[0]) == num_samples


@pytest.mark.parametrize("sample_rate_hz", [8000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("format", TELLING)
def test_a_whole_file_of_any_rate_tells_its_length(
    format: AudioFormat, sample_rate_hz: int
) -> None:
    file = whole_file(format, sample_rate_hz, noise(2 * sample_rate_hz))
    rate_hz = soundfile.info(io.BytesIO(file)).samplerate
    assert told_length(file, rate_hz) / rate_hz == pytest.approx(2.0, abs=1e-4)


@pytest.mark.parametrize("num_samples", [0, 1, 5000, 50_000])
@pytest.mark.parametrize("format", AudioFormat)
def test_whole_and_streamed_are_one_audio(format: AudioFormat, num_samples: int) -> None:
    samples = noise(num_samples)
    whole, streamed = whole_file(format, RATE_HZ, samples), spoken(format, samples, RATE_HZ)
    if whole or streamed:
        assert same_audio(whole, streamed, format)
    if format not in TELLING:
        assert whole == streamed


@pytest.mark.parametrize("format", AudioFormat)
@pytest.mark.parametrize("num_samples", [0, 10, 30_000])
def test_a_whole_file_does_not_depend_on_how_it_was_cut(
    format: AudioFormat, num_samples: int
) -> None:
    samples = noise(num_samples)
    pieces, header = cut(format, samples, 7)
    assert b"".join(with_header(pieces, header)) == whole_file(format, RATE_HZ, samples)


@pytest.mark.parametrize("format", AudioFormat)
def test_a_header_replaces_bytes_of_the_first_piece(format: AudioFormat) -> None:
    pieces, header = cut(format, noise(30_000), 7)
    assert len(header) <= len(pieces[0])
    stream = open_encoder(format, RATE_HZ)
    beginning = stream.encode(noise(30_000))
    assert beginning.startswith(stream.header), "a stream's header stays as it was sent"


def test_flac_tells_its_frames_and_its_checksum() -> None:
    samples = noise(120_321)
    info = whole_file(AudioFormat.FLAC, RATE_HZ, samples)[STREAMINFO]
    smallest, largest = info[4:7], info[7:10]
    assert bytes(3) < smallest <= largest
    assert info[18:] == hashlib.md5(pcm16(samples)).digest()


def test_a_streamed_flac_says_that_its_length_is_unknown() -> None:
    """As the encoders of FLAC's authors and of ffmpeg do: no samples, no checksum."""
    samples = noise(50_000)
    file = spoken(AudioFormat.FLAC, samples, RATE_HZ)
    info = file[STREAMINFO]
    assert int.from_bytes(info[10:18], "big") & (1 << 36) - 1 == 0
    assert info[18:] == bytes(16)
    assert pcm16(decoded(file, "flac", RATE_HZ)[0]) == pcm16(samples)
    # libsndfile plays it to its end, given a program that does not ask how long it is.
    with soundfile.SoundFile(io.BytesIO(file)) as reader:
        buffer = soundfile._ffi.new("short[]", 60_000)
        assert soundfile._snd.sf_readf_short(reader._file, buffer, 60_000) == len(samples)
        assert bytes(soundfile._ffi.buffer(buffer))[: 2 * len(samples)] == pcm16(samples)


def test_an_mp3_has_what_was_spoken_and_nothing_before_or_after() -> None:
    """Its Info frame tells decoders what the encoder added; of a stream they play it too."""
    time_s = np.arange(30_000) / RATE_HZ
    samples = (0.5 * np.sin(2 * np.pi * 440 * time_s)).astype(np.float32)
    heard, _ = decoded(whole_file(AudioFormat.MP3, RATE_HZ, samples), "mp3", RATE_HZ)
    assert len(heard) == len(samples)
    assert np.corrcoef(heard, samples)[0, 1] > 0.99
    streamed, _ = decoded(spoken(AudioFormat.MP3, samples, RATE_HZ), "mp3", RATE_HZ)
    assert len(streamed) > len(samples)
