"""Finds an audio file's media type by its first bytes."""

UNKNOWN = "application/octet-stream"

_BEGINNINGS = (
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ADIF", "audio/aac"),
    (b"\x1aE\xdf\xa3", "audio/webm"),
)
_INNER = {b"RIFF": (b"WAVE", "audio/wav"), b"FORM": (b"AIF", "audio/aiff")}


def media_type_of(content: bytes) -> str:
    """Return a file's media type, or `UNKNOWN`; whether it can be decoded is another question."""
    for beginning, media_type in _BEGINNINGS:
        if content.startswith(beginning):
            return media_type
    if content[4:8] == b"ftyp":
        return "audio/mp4"
    inner, media_type = _INNER.get(content[:4], (b"", UNKNOWN))
    if inner and content[8:12].startswith(inner):
        return media_type
    if len(content) > 1 and content[0] == 0xFF and content[1] & 0xE0 == 0xE0:
        layer = content[1] >> 1 & 3  # none: AAC in ADTS
        return "audio/mpeg" if layer else "audio/aac"
    return UNKNOWN
