"""Inspection of a directory of voices without loading a network."""

from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError
from antiphon.families.piper.phonemes import is_english, unread_language
from antiphon.families.piper.voice_files import PiperModel, read_model, read_models

_COLUMNS = ("Name", "Language", "Phonemes", "Rate (Hz)", "Speakers", "Size (MB)")
_SHOWN_SPEAKERS = 20


def inspect(path: Path) -> Inspection:
    """Read the configuration beside each network."""
    models, problems = _models(path)
    for model in models:
        if model.phoneme_type == "espeak" and not is_english(model):
            problems.append(unread_language(model))
    voices = [name for model in models for name in model.voices]
    more = len(voices) - _SHOWN_SPEAKERS
    shown = (*voices[:_SHOWN_SPEAKERS], *([f"and {more} more"] if more > 0 else []))
    return Inspection(
        facts={
            "Architecture": "VITS",
            "Voices": shown,
            "Languages": tuple(dict.fromkeys(name for m in models for name in m.language_names)),
        },
        tables=(Table(title="Networks", columns=_COLUMNS, rows=tuple(map(_row, models))),),
        problems=tuple(problems),
    )


def _models(path: Path) -> tuple[list[PiperModel], list[str]]:
    """Return the networks that can be read, and why others, or all together, cannot be served."""
    models, problems = [], []
    for network in sorted(path.glob("*.onnx")):
        try:
            models.append(read_model(network))
        except ModelLoadError as error:
            problems.append(str(error))
    if not problems:
        try:
            read_models(path)
        except ModelLoadError as error:
            problems.append(str(error))
    return models, problems


def _row(model: PiperModel) -> tuple[str | int, ...]:
    return (
        model.name,
        model.language_code or model.espeak_voice,
        model.phoneme_type,
        model.sample_rate_hz,
        max(1, len(model.speakers)),
        round(model.network.stat().st_size / 1e6),
    )
