"""Voices of hibari on this machine: the one in the package, and files in its cache."""

import logging
from dataclasses import dataclass
from pathlib import Path

from hibari.voices import VOICES, sha256_of, voice_path

from antiphon.contracts.types import Voice

_log = logging.getLogger(__name__)
_LOUDNESS_LUFS = {"heart": -26.0}
"""Measured integrated loudness, by FFmpeg's ebur128 over ten sentences."""


@dataclass(frozen=True, slots=True)
class InstalledVoice:
    """A voice whose network is on this machine.

    Attributes:
        british: whether text is read with British pronunciation.
    """

    voice: Voice
    network: Path
    british: bool


def installed_voices() -> dict[str, InstalledVoice]:
    """Return the voices by id, the one of the package first; downloads nothing."""
    installed = {}
    for name, facts in VOICES.items():
        try:
            path = Path(voice_path(name, download_missing=False))
        except FileNotFoundError:
            continue
        if not facts.get("bundled") and sha256_of(path) != facts["sha256"]:
            _log.warning("%s is damaged: the voice '%s' is left out", path, name)
            continue
        voice = Voice(
            id=name,
            name=name.capitalize(),
            language=facts["language"],
            gender=facts["gender"],
            description=f"{facts['accent']} English, {facts['gender']}",
            loudness_lufs=_LOUDNESS_LUFS.get(name),
        )
        installed[name] = InstalledVoice(voice, path, facts["british"])
    return installed
