"""Plain WAV files are read as the decoder reads them, to the bit; all others are left to it."""

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.audio.companding import companded_wav_header
from antiphon.audio.decode import decode_audio
from antiphon.audio.plain_wav import read_plain_wav
from antiphon.audio.wav import wav_header
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from antiphon.formats import AudioFormat
from tests.audio.files import spoken, tone, written

RATE_HZ = 16_000
PCM = np.random.default_rng(0).integers(-9000, 9000, RATE_HZ, np.int16).tobytes()
INFO = b"INFOISFT\x05\0\0\0abcde"


def read(
    data: bytes, sample_rate_hz: int = 24_000, max_duration_s: float = 30.0
) -> "Samples | None":
    return read_plain_wav(
        data, sample_rate_hz=sample_rate_hz, max_duration_s=max_duration_s, min_duration_s=0.5
    )


def decoded(data: bytes, sample_rate_hz: int = 24_000, max_duration_s: float = 30.0) -> Samples:
    return decode_audio(
        data, sample_rate_hz=sample_rate_hz, max_duration_s=max_duration_s, min_duration_s=0.5
    )


def check_same(data: bytes, sample_rate_hz: int = 24_000) -> None:
    plain = read(data, sample_rate_hz)
    assert plain is not None
    assert plain.dtype == np.float32
    np.testing.assert_array_equal(plain, decoded(data, sample_rate_hz))


def chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


def fmt(
    *,
    tag: int = 1,
    channels: int = 1,
    rate_hz: int = RATE_HZ,
    bits: int = 16,
    bytes_a_second: int | None = None,
    frame_bytes: int | None = None,
) -> bytes:
    frame = channels * bits // 8
    seconds = rate_hz * frame if bytes_a_second is None else bytes_a_second
    frame = frame if frame_bytes is None else frame_bytes
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate_hz, seconds, frame, bits))


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def sized_data(size: int, content: bytes = PCM) -> bytes:
    return b"data" + struct.pack("<I", size) + content


@pytest.mark.parametrize("format", ["WAV", "WAVEX"])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "FLOAT"])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_plain_format_gives_the_samples_of_the_decoder(
    format: str, subtype: str, channels: int
) -> None:
    for rate_hz in (8_000, 16_000, 22_050, 24_000, 44_100, 48_000, 192_000):
        rng = np.random.default_rng(rate_hz)
        samples = rng.uniform(-1.2, 1.2, (rate_hz + 7, channels))  # some too loud
        check_same(written(samples, rate_hz, format, subtype))
        check_same(written(samples, rate_hz, format, subtype), 16_000)


@pytest.mark.parametrize(
    "data",
    [
        riff(fmt(), chunk(b"data", PCM)),
        riff(chunk(b"LIST", INFO), fmt(), chunk(b"data", PCM)),
        riff(fmt(), chunk(b"JUNK", b"abc"), chunk(b"data", PCM)),
        riff(chunk(b"bext", bytes(602)), fmt(), chunk(b"data", PCM)),
        riff(fmt(), chunk(b"fact", struct.pack("<I", 100)), chunk(b"data", PCM)),
        riff(fmt(), chunk(b"data", PCM), chunk(b"LIST", INFO)),
        riff(fmt(), chunk(b"data", PCM[:-1]), chunk(b"LIST", INFO)),
        riff(fmt(), chunk(b"data", PCM), b"hello"),
        riff(fmt(), chunk(b"data", PCM))[:-1001],
        riff(fmt(channels=2, bits=24), chunk(b"data", PCM * 2))[:-5],
        riff(chunk(b"fmt ", fmt()[8:] + b"\0\0"), chunk(b"data", PCM)),
        riff(fmt(), sized_data(0x7FFFFFFF)),
        riff(fmt(), sized_data(0xFFFFFFFF)),
        riff(fmt(), sized_data(0xFFFFFFFF, PCM[:-1])),
        b"RIFF\0\0\0\0" + riff(fmt(), chunk(b"data", PCM))[8:],
        spoken(AudioFormat.WAV, tone(RATE_HZ, 2), RATE_HZ),
        wav_header(RATE_HZ, None) + PCM,
    ],
    ids=range(17),
)
def test_odd_but_plain_files_give_the_samples_of_the_decoder(data: bytes) -> None:
    check_same(data)
    check_same(data, RATE_HZ)


GUID_END = "000000001000800000aa00389b71"


def extensible(valid_bits: int, guid_end: str = GUID_END, size: int = 22) -> bytes:
    body = fmt()[8:] + struct.pack("<HHIH", size, valid_bits, 4, 1) + bytes.fromhex(guid_end)
    return chunk(b"fmt ", b"\xfe\xff" + body[2:])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"RIFF",
        b"RIFF\0\0\0\0WAVE",
        PCM,
        b"RIFX" + riff(fmt(), chunk(b"data", PCM))[4:],
        b"RF64" + riff(fmt(), chunk(b"data", PCM))[4:],
        riff(chunk(b"data", PCM), fmt()),
        riff(fmt()),
        riff(fmt(), sized_data(0)),
        riff(fmt(), chunk(b"data", PCM), chunk(b"data", PCM)),
        riff(fmt(), fmt(rate_hz=8_000), chunk(b"data", PCM)),
        riff(fmt(), chunk(b"data", PCM), fmt(rate_hz=8_000)),
        riff(fmt(), chunk(b"abcd", b"what"), chunk(b"data", PCM)),
        riff(*[chunk(b"JUNK", b"")] * 40, fmt(), chunk(b"data", PCM)),
        riff(fmt(channels=0), chunk(b"data", PCM)),
        riff(fmt(channels=3), chunk(b"data", PCM)),
        riff(fmt(rate_hz=0), chunk(b"data", PCM)),
        riff(fmt(rate_hz=1_000), chunk(b"data", PCM)),
        riff(fmt(rate_hz=400_000), chunk(b"data", PCM)),
        riff(fmt(frame_bytes=4), chunk(b"data", PCM)),
        riff(fmt(bytes_a_second=0), chunk(b"data", PCM)),
        riff(fmt(bits=8), chunk(b"data", PCM)),
        riff(fmt(bits=12), chunk(b"data", PCM)),
        riff(fmt(tag=3, bits=64), chunk(b"data", PCM)),
        riff(fmt(tag=2), chunk(b"data", PCM)),
        riff(chunk(b"fmt ", fmt()[8:22]), chunk(b"data", PCM)),
        riff(fmt())[:-4],
        riff(extensible(12), chunk(b"data", PCM)),
        riff(extensible(16, "00" * 14), chunk(b"data", PCM)),
        riff(extensible(16, size=6), chunk(b"data", PCM)),
        riff(chunk(b"fmt ", fmt()[8:] + b"\1\0"), chunk(b"data", PCM)),
        companded_wav_header("mulaw", 8_000) + PCM,
        riff(fmt(), chunk(b"data", PCM[:100])),  # too short
        riff(fmt(), chunk(b"data", PCM * 31)),  # too long
        written(np.full(RATE_HZ, np.nan), RATE_HZ, "WAV", "FLOAT"),
        written(np.full(RATE_HZ, np.inf), RATE_HZ, "WAV", "FLOAT"),
        written(tone(RATE_HZ, 1), RATE_HZ, "FLAC"),
    ],
    ids=range(37),
)
def test_what_is_not_plain_or_will_not_do_is_left_to_the_decoder(data: bytes) -> None:
    assert read(data) is None


def test_an_extensible_header_that_says_nothing_new_is_plain() -> None:
    check_same(riff(extensible(16), chunk(b"data", PCM)))


def test_the_limits_of_duration_are_those_of_the_decoder() -> None:
    for num_samples in (7_999, 8_000, 8_001, 17_599, 17_600, 17_601):
        data = riff(fmt(), chunk(b"data", (PCM * 2)[: 2 * num_samples]))
        plain = read(data, RATE_HZ, max_duration_s=1.0)
        assert (plain is not None) == (0.5 <= Fraction(num_samples, RATE_HZ) <= 1.0 + 0.1)
        if plain is None:
            with pytest.raises(InvalidRequestError, match=r"too (short|long)"):
                decoded(data, RATE_HZ, max_duration_s=1.0)


VALID = [
    riff(chunk(b"LIST", INFO), fmt(), chunk(b"data", PCM)),
    riff(extensible(16), chunk(b"data", PCM), chunk(b"LIST", INFO)),
    riff(fmt(tag=3, bits=32), chunk(b"data", tone(RATE_HZ, 1).tobytes())),
    riff(fmt(channels=2, bits=24), chunk(b"data", PCM * 2)),
]


@given(
    st.sampled_from(VALID),
    st.lists(st.tuples(st.integers(0, 110), st.integers(0, 255)), max_size=3),
    st.integers(0, 200),
)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_damaged_headers_give_what_the_decoder_gives_or_nothing(
    data: bytes, changes: list[tuple[int, int]], num_cut: int
) -> None:
    damaged = bytearray(data[: len(data) - num_cut])
    for place, value in changes:
        damaged[place] = value
    plain = read(bytes(damaged))
    if plain is not None:
        np.testing.assert_array_equal(plain, decoded(bytes(damaged)))


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_garbage_is_no_fault_of_ours(rest: bytes) -> None:
    for begin in (b"", b"RIFF\x24\0\0\0WAVE", b"RIFF\x24\0\0\0WAVE" + fmt()):
        plain = read(begin + rest)
        assert plain is None or np.isfinite(plain).all()
