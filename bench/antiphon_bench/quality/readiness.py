"""Check of the packages and files of quality metrics, before speech is requested."""

from collections.abc import Sequence
from importlib.util import find_spec

from antiphon.errors import SettingsError


def refuse_unready(
    metrics: Sequence[str], *, whisper: str | None = None, language: str | None = None
) -> None:
    """Load the networks that metrics need; they are kept; raises SettingsError.

    Args:
        whisper: directory of a recogniser; ``None``: the default one, for English.
        language: language of the texts to be recognised; ``None``: not known yet.
    """
    if {"speaker", "mos"} & set(metrics) and find_spec("torch") is None:
        raise SettingsError(
            "The metrics speaker and mos need torch: extra 'quality' of antiphon-bench."
        )
    if "wer" in metrics:
        from antiphon_bench.quality.transcript import Recogniser

        recogniser = Recogniser(whisper)
        if language is not None:
            recogniser.refuse_unknown(language)
    if "speaker" in metrics:
        from antiphon_bench.quality.speaker_vectors import SpeakerVectors

        SpeakerVectors()
    if "mos" in metrics:
        from antiphon_bench.quality.opinion import OpinionModel

        OpinionModel()
