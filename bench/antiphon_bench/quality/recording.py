"""Speech to be judged, and how it is read out of files."""

import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.decode import decode_audio
from antiphon.errors import AntiphonError, SettingsError

RATE_HZ = 24_000
"""At which files that are no WAV are judged."""
_MAX_DURATION_S = 3600.0


@dataclass(frozen=True, slots=True)
class SpeechRecording:
    """One piece of speech.

    Attributes:
        pieces: mono samples in [-1, 1] as they came, each of shape ``[num_samples]``.
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
        SettingsError: The file cannot be read.
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
