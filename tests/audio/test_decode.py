"""Uploads: every usual format is heard, limits hold while decoding, and nothing else is opened."""

import functools
import io
import socketserver
import tarfile
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.audio import decode
from antiphon.audio.decode import decode_audio
from antiphon.audio.resample import Resampler
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from antiphon.formats import AudioFormat
from tests.audio.files import muxed, repeated_opus_silence, spoken, tone, written

EXACT = ("flac", "wav", "aiff", "alac", "pcm")
FILES = {
    **{
        f"our {format}": functools.partial(spoken, format, tone(24000, 2), 24000)
        for format in AudioFormat
        if format is not AudioFormat.PCM
    },
    **{
        f"{format} {subtype}": functools.partial(written, tone(rate, 2), rate, format, subtype)
        for format, subtype, rate in [
            ("WAV", "PCM_U8", 8000),
            ("WAV", "PCM_16", 44100),
            ("WAV", "PCM_24", 48000),
            ("WAV", "FLOAT", 96000),
            ("WAV", "DOUBLE", 16000),
            ("WAV", "ULAW", 8000),
            ("AIFF", "PCM_16", 44100),
            ("FLAC", "PCM_24", 48000),
            ("MP3", None, 44100),
            ("OGG", "VORBIS", 44100),
            ("OGG", "OPUS", 48000),
        ]
    },
    **{
        f"{container} {codec}": functools.partial(muxed, container, codec, tone(rate, 2), rate)
        for container, codec, rate in [
            ("mp4", "aac", 44100),
            ("ipod", "alac", 44100),
            ("mov", "pcm_s16le", 48000),
            ("webm", "libopus", 48000),
            ("matroska", "flac", 44100),
            ("adts", "aac", 22050),
        ]
    },
}


@functools.cache
def file_of(name: str) -> bytes:
    return FILES[name]()


def decoded(data: bytes, sample_rate_hz: int = 24000, max_duration_s: float = 30.0) -> Samples:
    return decode_audio(data, sample_rate_hz=sample_rate_hz, max_duration_s=max_duration_s)


@pytest.mark.parametrize("name", FILES)
def test_every_usual_format_is_heard(name: str) -> None:
    samples = decoded(file_of(name))
    assert samples.dtype == np.float32
    # Lossy encoders pad both ends, and not every file says by how much.
    is_exact = any(word in name.lower() for word in EXACT)
    assert len(samples) == 48000 if is_exact else -300 < len(samples) - 48000 < 2400
    middle = samples[12000:36000]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) * 24000 / len(middle) == pytest.approx(440, abs=1)
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.05)


def test_samples_are_exact_where_the_format_is() -> None:
    samples = tone(24000, 1.5)
    for subtype, bits in (("PCM_16", 16), ("PCM_24", 24), ("FLOAT", 25)):
        data = written(samples, 24000, "WAV", subtype)
        np.testing.assert_allclose(decoded(data), samples, atol=2.0 ** (1 - bits))
    resampled = Resampler(24000, 16000)
    expected = np.concatenate([resampled.push(samples), resampled.flush()])
    np.testing.assert_allclose(
        decoded(written(samples, 24000, "WAV", "FLOAT"), 16000), expected, atol=1e-6
    )


def test_channels_are_mixed_down() -> None:
    left, right = tone(16000, 1, 300), tone(16000, 1, 500)
    for format in ("WAV", "FLAC"):  # interleaved and planar
        data = written(np.stack([left, right], axis=1), 16000, format, "PCM_16")
        np.testing.assert_allclose(decoded(data, 16000), (left + right) / 2, atol=1e-4)
    surround = np.zeros((16000, 6), np.float32)
    surround[:, 2] = left
    data = written(surround, 16000, "WAV", "PCM_16")
    np.testing.assert_allclose(decoded(data, 16000), left / 6, atol=1e-4)
    with pytest.raises(InvalidRequestError, match="16 channels"):
        decoded(written(np.zeros((16000, 16), np.float32), 16000, "WAV", "PCM_16"))


def test_loud_samples_are_clipped_and_wrong_ones_refused() -> None:
    samples = np.array([0.5, 3.0, -7.0, 0.0] * 4000, np.float32)
    expected = np.array([0.5, 1.0, -1.0, 0.0] * 4000, np.float32)
    np.testing.assert_array_equal(decoded(written(samples, 24000, "WAV", "FLOAT")), expected)
    for wrong in (np.nan, np.inf, 1e300):
        doubles = samples.astype(np.float64)
        doubles[7] = wrong
        with pytest.raises(InvalidRequestError, match="not finite"):
            decoded(written(doubles, 24000, "WAV", "DOUBLE"))


def test_limits_of_duration() -> None:
    def with_limits(duration_s: float) -> Samples:
        data = written(tone(8000, duration_s), 8000, "WAV", "PCM_16")
        return decode_audio(data, sample_rate_hz=8000, max_duration_s=30, min_duration_s=1)

    assert len(with_limits(1.0)) == 8000
    assert len(with_limits(30.0)) == 240_000
    assert len(with_limits(30.05)) == 240_400  # what an encoder may have added is no offence
    for rate in (8000, 11025, 44100, 48000):
        data = written(tone(rate, 1), rate, "FLAC")
        assert len(decode_audio(data, sample_rate_hz=rate, max_duration_s=1, min_duration_s=1))
    with pytest.raises(InvalidRequestError, match=r"too short \(0\.9s\)"):
        with_limits(0.99)
    with pytest.raises(InvalidRequestError) as short:
        with_limits(0.3)
    assert short.value.message == (
        "Reference audio too short (0.3s). At least 1s of clear speech is required."
    )
    with pytest.raises(InvalidRequestError) as long:
        with_limits(45.0)
    assert long.value.message == (
        "Reference audio too long (45.0s). Maximum 30s supported — use a shorter clip."
    )
    assert short.value.param == long.value.param == "ref_audio"
    assert len(decoded(written(tone(8000, 0), 8000, "WAV", "PCM_16"))) == 0


@pytest.mark.parametrize("kind", ["flac", "opus"])
def test_an_hour_in_a_small_file_is_not_decoded_to_its_end(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "flac":
        data = written(np.zeros(3600 * 8000, np.float32), 8000, "FLAC")
    else:
        data = repeated_opus_silence(3600)
    assert len(data) < 1_000_000
    decoded_s: list[float] = []
    push = decode._Track.push

    def counted(track: decode._Track, frame: av.AudioFrame) -> None:
        decoded_s.append(frame.samples / frame.sample_rate)
        push(track, frame)

    monkeypatch.setattr(decode._Track, "push", counted)
    with pytest.raises(InvalidRequestError, match=r"too long \(36\d\d\.\ds\)"):
        decoded(data)
    assert 29 < sum(decoded_s) < 31


def test_a_rate_or_codec_that_speech_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="1000 Hz"):
        decoded(written(tone(1000, 2), 1000, "WAV", "PCM_16"))
    with pytest.raises(InvalidRequestError, match="codec is not supported"):
        decoded(muxed("wav", "adpcm_ms", tone(16000, 2), 16000))


def test_a_damaged_part_is_left_out() -> None:
    whole = bytearray(file_of("our mp3"))
    middle = len(whole) // 2
    whole[middle : middle + 2000] = bytes(2000)
    assert 24000 < len(decoded(bytes(whole))) < 50000
    assert 12000 < len(decoded(file_of("our opus")[:-8000])) < 48000  # cut while it was sent


def test_tags_that_are_not_text_do_no_harm() -> None:
    data = muxed("flac", "flac", tone(8000, 2), 8000, title="title")
    odd = data.replace(b"title=title", b"title=\xff\xfe\xfd\xfc\xfb")
    assert odd != data
    assert len(decoded(odd, 8000)) == 16000


class Listener(socketserver.ThreadingTCPServer):
    """Counts who comes, and sends them away."""

    daemon_threads = True
    num_connections = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        self.num_connections += 1
        self.shutdown_request(request)


@pytest.fixture
def listener() -> Generator[Listener, None, None]:
    with Listener(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def hls(target: str) -> bytes:
    lines = ["#EXTM3U", "#EXT-X-TARGETDURATION:9", "#EXTINF:9,", target, "#EXT-X-ENDLIST", ""]
    return "\n".join(lines).encode()


def concat(target: str) -> bytes:
    return f"ffconcat version 1.0\nfile '{target}'\n".encode()


@pytest.mark.parametrize(
    "laxer",
    [
        {},
        {"format_whitelist": "hls,concat,wav"},  # then there is no protocol to open them with
        {"protocol_whitelist": "file,http,tcp"},  # then there is no format that opens anything
    ],
    ids=str,
)
def test_playlists_open_nothing(
    laxer: dict[str, str], listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "_OPTIONS", {**decode._OPTIONS, "safe": "0", **laxer})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.wav").write_bytes(written(tone(8000, 2), 8000, "WAV", "PCM_16"))
    url = f"http://127.0.0.1:{listener.server_address[1]}/a.ts"
    for playlist in (hls(url), concat(url), concat("secret.wav")):
        with pytest.raises(InvalidRequestError, match="Could not decode audio"):
            decoded(playlist)
    assert listener.num_connections == 0


def test_playlists_of_that_test_would_open_something(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lax = {"format_whitelist": "hls,concat,wav", "protocol_whitelist": "file,http,tcp"}
    monkeypatch.setattr(decode, "_OPTIONS", {**decode._OPTIONS, "safe": "0", **lax})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.wav").write_bytes(written(tone(8000, 2), 8000, "WAV", "PCM_16"))
    assert len(decoded(concat("secret.wav"), 8000)) == 16000
    with pytest.raises(InvalidRequestError):
        decoded(concat(f"http://127.0.0.1:{listener.server_address[1]}/a.ts"))
    assert listener.num_connections > 0


def tar_of(data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("voice.wav")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"?",
        b"hello" * 1000,
        b"RIFF",
        bytes(100_000),
        b"\xff" * 100_000,
        b"ID3\x04" + bytes(99),
    ],
    ids=lambda data: repr(data[:5]),
)
def test_what_is_not_audio_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="Could not decode audio") as refused:
        decoded(data)
    assert refused.value.param == "ref_audio"


def test_a_video_without_sound_is_refused() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream: Any = output.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        for number in range(10):
            frame = av.VideoFrame(32, 32, "yuv420p")
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    with pytest.raises(InvalidRequestError, match="no audio track"):
        decoded(file.getvalue())
    with pytest.raises(InvalidRequestError, match="Could not decode audio"):
        decoded(tar_of(file.getvalue()))


BEGINNINGS = [b"", b"RIFF\x24\0\0\0WAVEfmt ", b"OggS\0\x02", b"fLaC\0\0\0\x22", b"\xff\xfb\x90\x64"]
BEGINNINGS += [b"\xff\xf1\x50\x80", b"\x1aE\xdf\xa3", b"FORM\0\0\0\x40AIFFCOMM", b"ID3\x03\0"]


def check_hostile(data: bytes) -> None:
    try:
        samples = decoded(data, max_duration_s=5.0)
    except InvalidRequestError:
        return
    assert len(samples) <= 5.2 * 24000
    assert np.abs(samples).max(initial=0) <= 1


@given(st.sampled_from(BEGINNINGS), st.binary(max_size=4000))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_garbage_is_refused_and_nothing_worse(beginning: bytes, rest: bytes) -> None:
    check_hostile(beginning + rest)


@given(
    st.sampled_from([name for name in FILES if name.split()[0] not in ("mp4", "ipod", "mov")]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=30),
    st.floats(0, 1),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_damaged_files_are_refused_or_heard(
    name: str, changes: list[tuple[float, int]], kept: float
) -> None:
    data = bytearray(file_of(name))
    for place, value in changes:
        data[int(place**3 * len(data))] = value  # mostly in the headers
    check_hostile(bytes(data[: int(kept * len(data)) + 1]))
