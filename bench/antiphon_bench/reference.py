"""A recording to be cloned, for measurements: a file's, or one that the default voice speaks."""

import base64
from pathlib import Path

from antiphon import Antiphon, SpeechRequest
from antiphon.audio.encode import whole_file
from antiphon.errors import SettingsError
from antiphon.formats import AudioFormat

TEXT = "The kettle is on, the bread is almost done, and somebody is knocking at the door."


def reference_values(file: Path | None, text: str | None) -> dict[str, str]:
    """Return the members of a request that clones: ``ref_audio`` as a data URL, and ``ref_text``.

    Args:
        file: WAV file; ``None``: the default voice speaks `TEXT`.

    Raises:
        SettingsError: the file cannot be read, or comes without its text.
    """
    if file is None:
        return {"ref_audio": _data_url(_spoken()), "ref_text": TEXT}
    if text is None:
        raise SettingsError("--ref-audio needs --ref-text, the transcript of the recording.")
    try:
        return {"ref_audio": _data_url(file.read_bytes()), "ref_text": text}
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error


def _spoken() -> bytes:
    with Antiphon.load(device="cpu") as antiphon:
        audio = antiphon.speech(SpeechRequest(TEXT, seed=1))
    return whole_file(AudioFormat.WAV, audio.sample_rate_hz, audio.samples)


def _data_url(data: bytes) -> str:
    return f"data:audio/wav;base64,{base64.b64encode(data).decode()}"
