"""Choice of the body reader, by the requested format and the answer's ``Content-Type``."""

from antiphon_bench.bodies import Body, BodyError, PcmBody
from antiphon_bench.event_body import EventBody
from antiphon_bench.wav_body import WavBody

_UNNAMED = ("", "application/octet-stream", "binary/octet-stream")
_SUBTYPES = {
    "pcm": ("pcm", "x-pcm", "raw", "x-raw", "l16"),
    "wav": ("wav", "x-wav", "wave", "vnd.wave"),
}
_EVENTS = "text/event-stream"


def media_type(header: str) -> tuple[str, dict[str, str]]:
    """Return the media type of ``Content-Type``, in lower case, and its parameters."""
    kind, *rest = (each.strip().lower() for each in header.split(";"))
    pairs = (each.partition("=") for each in rest)
    return kind, {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def open_body(response_format: str, content_type: str, channels: int = 1) -> Body:
    """Return the reader of a response in ``"pcm"`` or ``"wav"``; raises BodyError.

    Args:
        content_type: ``Content-Type`` of the answer; "" if it has none.
    """
    kind, _ = media_type(content_type)
    wanted = "wav" if response_format == "wav" else "pcm"
    of_audio = kind.startswith("audio/") and kind.removeprefix("audio/") in _SUBTYPES[wanted]
    if not of_audio and kind not in (*_UNNAMED, _EVENTS):
        raise BodyError(f"{kind} came in the place of {wanted}")
    audio = (WavBody if wanted == "wav" else PcmBody)(channels)
    return EventBody(audio) if kind == _EVENTS else audio
