"""A file's type is told by its content: each of our own encoders' files, and those of others."""

import pytest

from antiphon.audio.encode import open_encoder
from antiphon.audio.media_type import UNKNOWN, media_type_of
from antiphon.formats import AudioFormat
from tests.audio.files import tone, written

EXPECTED = {
    AudioFormat.MP3: "audio/mpeg",
    AudioFormat.OPUS: "audio/ogg",
    AudioFormat.AAC: "audio/aac",
    AudioFormat.FLAC: "audio/flac",
    AudioFormat.WAV: "audio/wav",
}


@pytest.mark.parametrize("format", EXPECTED)
def test_our_own_files(format: AudioFormat) -> None:
    encoder = open_encoder(format, 24_000)
    file = encoder.encode(tone(24_000, 0.5)) + encoder.finish()
    assert media_type_of(file) == EXPECTED[format]


def test_other_files() -> None:
    assert media_type_of(written(tone(24_000, 0.5), 24_000, "AIFF")) == "audio/aiff"
    assert media_type_of(b"\0\0\0\x20ftypM4A ") == "audio/mp4"
    assert media_type_of(b"\x1aE\xdf\xa3\x01") == "audio/webm"
    assert media_type_of(b"\xff\xfb\x90") == "audio/mpeg"
    for other in (b"", b"RIFF", b"RIFF....AVI ", b"<html>", b"\xff", b"\x89PNG"):
        assert media_type_of(other) == UNKNOWN
