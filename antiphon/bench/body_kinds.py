"""Which reader an answer gets: by what was asked for, and by what the answer says it is."""

from antiphon.bench.bodies import Body, BodyError, PcmBody
from antiphon.bench.event_body import EventBody
from antiphon.bench.wav_body import WavBody

_UNTOLD = ("", "application/octet-stream", "binary/octet-stream")
_SUBTYPES = {
    "pcm": ("pcm", "x-pcm", "raw", "x-raw", "l16"),
    "wav": ("wav", "x-wav", "wave", "vnd.wave"),
}
_EVENTS = "text/event-stream"


def media_type(header: str) -> tuple[str, dict[str, str]]:
    """Return what ``Content-Type`` says, in small letters, and its parameters."""
    kind, *rest = (each.strip().lower() for each in header.split(";"))
    pairs = (each.partition("=") for each in rest)
    return kind, {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def open_body(response_format: str, content_type: str, channels: int = 1) -> Body:
    """Return the reader of a response in ``"pcm"`` or ``"wav"``.

    Args:
        response_format: that was asked for.
        content_type: of the answer; "" if it does not say.
        channels: of bare samples.

    Raises:
        BodyError: the answer is something else.
    """
    kind, _ = media_type(content_type)
    wanted = "wav" if response_format == "wav" else "pcm"
    of_audio = kind.startswith("audio/") and kind.removeprefix("audio/") in _SUBTYPES[wanted]
    if not of_audio and kind not in (*_UNTOLD, _EVENTS):
        raise BodyError(f"{kind} came in the place of {wanted}")
    audio = (WavBody if wanted == "wav" else PcmBody)(channels)
    return EventBody(audio) if kind == _EVENTS else audio
