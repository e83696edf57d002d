"""Speech to be judged: files, or what a server answers."""

import json
import urllib.error
import urllib.request
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.decode import decode_audio
from antiphon.errors import AntiphonError, SettingsError

RATE_HZ = 24_000
"""At which files that are no WAV are judged."""
_MAX_DURATION_S = 3600.0
_TIMEOUT_S = 600.0
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SpeechRecording:
    """One piece of speech.

    Attributes:
        name: of it, in reports.
        pieces: mono samples in [-1, 1] as they came, each of shape ``[num_samples]``.
        sample_rate_hz: of them.
        text: that it says, if that is known.
        language: of the text, as ``"en"``.
    """

    name: str
    pieces: tuple[NDArray[np.float64], ...]
    sample_rate_hz: int
    text: str | None = None
    language: str = "en"

    @property
    def samples(self) -> NDArray[np.float64]:
        """All of it, shape ``[num_samples]``."""
        return np.concatenate([*self.pieces, np.zeros(0)])

    @property
    def duration_s(self) -> float:
        return sum(map(len, self.pieces)) / self.sample_rate_hz


def read_recording(file: Path, language: str = "en") -> SpeechRecording:
    """Read a file; its text lies beside it, in a file of the same name that ends in ``.txt``.

    Raises:
        SettingsError: it cannot be read.
    """
    try:
        data = file.read_bytes()
        text_file = file.with_suffix(".txt")
        text = text_file.read_text(encoding="utf-8").strip() if text_file.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error
    found = _wav(file)
    if found is None:
        try:
            samples = decode_audio(data, sample_rate_hz=RATE_HZ, max_duration_s=_MAX_DURATION_S)
        except AntiphonError as error:
            raise SettingsError(f"{file}: {error}") from error
        found = samples.astype(np.float64), RATE_HZ
    return SpeechRecording(file.stem, (found[0],), found[1], text, language)


def _wav(file: Path) -> tuple[NDArray[np.float64], int] | None:
    """Read 16-bit WAV sample for sample: what is clipped stays at its edge."""
    try:
        with wave.open(str(file), "rb") as wav:
            if wav.getsampwidth() != 2:
                return None
            data = wav.readframes(wav.getnframes())
            frames = np.frombuffer(data, "<i2").reshape(-1, wav.getnchannels())
            return frames.mean(axis=1) / 32768, wav.getframerate()
    except (wave.Error, EOFError):
        return None


def spoken_by(
    url: str,
    texts: Mapping[str, str],
    *,
    fields: Mapping[str, Any],
    language: str = "en",
    api_key: str | None = None,
) -> list[SpeechRecording]:
    """Ask a server for each text and return what it says, in the pieces in which it came.

    Args:
        url: of the server, with or without ``/v1``.
        texts: by name.
        fields: further members of each request.
        language: of the texts.
        api_key: of the server.

    Raises:
        SettingsError: the server cannot be reached, or refuses.
    """
    base = url.rstrip("/").removesuffix("/v1")
    headers = {"Content-Type": "application/json"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    found = []
    for name, text in texts.items():
        body = json.dumps({"response_format": "pcm", **fields, "input": text}).encode()
        request = urllib.request.Request(f"{base}/v1/audio/speech", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
                rate_hz = int(response.headers.get("X-Sample-Rate", RATE_HZ))
                pieces = list(iter(lambda: response.read1(_PIECE_BYTES), b""))
        except urllib.error.HTTPError as error:
            raise SettingsError(f"{url}: {error}: {error.read().decode()[:500]}") from error
        except OSError as error:
            raise SettingsError(f"{url}: {error}") from error
        found.append(SpeechRecording(name, tuple(_samples(pieces)), rate_hz, text, language))
    return found


def _samples(pieces: Sequence[bytes]) -> list[NDArray[np.float64]]:
    found, odd = [], b""
    for piece in pieces:
        data = odd + piece
        even = len(data) // 2 * 2
        odd = data[even:]
        if even:
            found.append(np.frombuffer(data[:even], "<i2") / 32768)
    return found
