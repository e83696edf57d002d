"""Names and media types of the formats that audio is sent in."""

from enum import StrEnum


class AudioFormat(StrEnum):
    """The formats that speech can be asked for in."""

    MP3 = "mp3"
    OPUS = "opus"
    AAC = "aac"
    FLAC = "flac"
    WAV = "wav"
    PCM = "pcm"

    @property
    def media_type(self) -> str:
        """Value of ``Content-Type``."""
        return f"audio/{_SUBTYPES.get(self, self.value)}"

    @property
    def is_compressed(self) -> bool:
        """Whether making it takes a codec, and so milliseconds rather than microseconds."""
        return self not in (AudioFormat.WAV, AudioFormat.PCM)

    def content_type(self, sample_rate_hz: int, channels: int) -> str:
        """Return `media_type`; of bare samples of several channels with what cannot be guessed."""
        if self is not AudioFormat.PCM or channels == 1:
            return self.media_type
        return f"{self.media_type};rate={sample_rate_hz};channels={channels}"


_SUBTYPES = {"mp3": "mpeg", "opus": "ogg"}  # of others, their own names
*_FIRST, _LAST = AudioFormat
FORMAT_NAMES = f"{', '.join(_FIRST)} or {_LAST}"
"""All of them, for people."""
