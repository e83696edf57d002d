"""Tells what a judgement lacks before speech is asked for, which may take long."""

from collections.abc import Sequence
from importlib.util import find_spec

from antiphon.errors import SettingsError


def refuse_unready(
    metrics: Sequence[str], *, whisper: str | None = None, language: str | None = None
) -> None:
    """Load the networks that metrics need; they are kept.

    Args:
        metrics: that are to be judged.
        whisper: directory of a recogniser, if not that for English.
        language: of texts that are to be recognised; ``None``: it is not known yet.

    Raises:
        SettingsError: a package or a file is missing, or the recogniser does not know the language.
    """
    if {"speaker", "mos"} & set(metrics) and find_spec("torch") is None:
        raise SettingsError("The metrics speaker and mos need the extra 'quality': no torch here.")
    if "wer" in metrics:
        from antiphon.bench.quality.transcript import Recogniser

        recogniser = Recogniser(whisper)
        if language is not None:
            recogniser.refuse_unknown(language)
    if "speaker" in metrics:
        from antiphon.bench.quality.speaker_vectors import SpeakerVectors

        SpeakerVectors()
    if "mos" in metrics:
        from antiphon.bench.quality.opinion import OpinionModel

        OpinionModel()
