"""Voices by their names: language, gender, name; mixes such as ``af_bella(2)+af_sky``."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Final

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.inspection import Inspection, Table
from antiphon.contracts.types import Voice
from antiphon.errors import EngineError, ModelLoadError, how_to_install
from antiphon.families.kit.checkpoint import Findings
from antiphon.families.kokoro.checkpoint import (
    SAMPLE_RATE_HZ,
    STYLE_SIZE,
    KokoroCheckpoint,
    read_checkpoint,
)
from antiphon.families.kokoro.languages import LANGUAGES

_DEFAULT = "af_heart"
_GENDERS = {"f": "female", "m": "male"}
_MAX_MIXED = 16
_PART = re.compile(r"(?P<name>\w+)(\((?P<weight>\d*\.?\d+)\))?")
_SIGN = re.compile(r"(\+|-)")
_LUFS: Final[Mapping[str, float]] = json.loads(
    Path(__file__).with_name("loudness.json").read_text(encoding="utf-8")
)
"""Integrated loudness of the published voices, by FFmpeg's ebur128 over six sentences."""


@dataclass(frozen=True, slots=True)
class MixedVoice:
    """A voice of a mix, and its share; the shares' absolute values add up to 1."""

    name: str
    share: float


def letter_of(name: str) -> str:
    """Return the letter of a voice's language; a voice without one is taken for American."""
    return name[0] if len(name) > 3 and name[2] == "_" and name[0] in LANGUAGES else "a"


def describe(name: str) -> Voice:
    """Return the description of a voice, or of a mix, for users."""
    parts = parse_mix(name)
    first, is_mix = parts[0].name, len(parts) > 1
    language = LANGUAGES[letter_of(first)]
    gender = None if is_mix else _GENDERS.get(first[1:2])
    return Voice(
        id=name,
        name=name if is_mix else first[3:].replace("_", " ").title() or first,
        language=language.names[0],
        gender=gender,
        description=f"{language.title}, {'a mix' if is_mix else gender or 'any gender'}",
        loudness_lufs=_loudness_lufs(parts),
    )


def _loudness_lufs(parts: tuple[MixedVoice, ...]) -> float | None:
    """Return the measured loudness of a voice, and for a mix the mean of its parts by share."""
    known = [_LUFS.get(part.name) for part in parts]
    if any(each is None for each in known):
        return None
    return sum(abs(part.share) * (each or 0.0) for part, each in zip(parts, known, strict=True))


def in_order(names: Collection[str]) -> list[str]:
    """Return voices in their order for people: the best known one first."""
    return sorted(names, key=lambda name: (name != _DEFAULT, letter_of(name), name))


def parse_mix(name: str) -> tuple[MixedVoice, ...]:
    """Return the voices of a mix; of anything else, that alone.

    As in Kokoro-FastAPI, ``+`` adds a voice and ``-`` takes it away; weights are numbers in
    brackets, 1 without, and count relative to their sum.
    """
    first, *rest = _SIGN.split(name)
    signed = [("+", first), *zip(rest[::2], rest[1::2], strict=True)]
    found = [(sign, _PART.fullmatch(part)) for sign, part in signed]
    if len(found) > _MAX_MIXED or not all(part for _, part in found):
        return (MixedVoice(name, 1.0),)
    shares = [(part["name"], float(f"{sign}{part['weight'] or 1}")) for sign, part in found if part]
    total = sum(abs(weight) for _, weight in shares)
    if not 0 < total < float("inf"):
        return (MixedVoice(name, 1.0),)
    return tuple(MixedVoice(each, weight / total) for each, weight in shares)


class VoiceStyles:
    """The styles of voices, read when they are first asked for; may be used from any thread."""

    def __init__(self, checkpoint: KokoroCheckpoint) -> None:
        self._files = checkpoint.voices
        self._styles: dict[str, NDArray[np.float32]] = {}

    def style(self, voice: str, num_phonemes: int) -> NDArray[np.float32]:
        """Return the style of a voice or mix for a number of phonemes, ``[1, 256]``.

        Raises:
            EngineError: there is no such voice here.
        """
        mixed = np.zeros((1, STYLE_SIZE), np.float32)
        for part in parse_mix(voice):
            rows = self._rows(part.name)
            mixed += np.float32(part.share) * rows[min(num_phonemes, len(rows)) - 1]
        return mixed

    def _rows(self, name: str) -> NDArray[np.float32]:
        if name not in self._files:
            raise EngineError(f"The voice '{name}' is not loaded.")
        if name not in self._styles:
            file = self._files[name]
            read = _read_pickled if file.suffix == ".pt" else _read_raw
            rows = read(str(file)).reshape(-1, STYLE_SIZE)
            if not np.isfinite(rows).all():
                raise ModelLoadError(f"{file}: has styles that are not finite numbers.")
            self._styles[name] = rows
        return self._styles[name]


def _read_raw(file: str) -> NDArray[np.float32]:
    numbers = np.fromfile(file, "<f4")
    if len(numbers) == 0 or len(numbers) % STYLE_SIZE:
        raise ModelLoadError(f"{file}: is no table of styles of {STYLE_SIZE} numbers.")
    return numbers


def _read_pickled(file: str) -> NDArray[np.float32]:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ModelLoadError(f"{file}: needs PyTorch: {how_to_install('torch')}") from error
    try:
        tensor = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, UnpicklingError) as error:
        raise ModelLoadError(f"{file}: cannot be read as a tensor.") from error
    is_tensor = isinstance(tensor, torch.Tensor)
    if not is_tensor or tensor.numel() == 0 or tensor.shape[-1] != STYLE_SIZE:
        raise ModelLoadError(f"{file}: is no table of styles of {STYLE_SIZE} numbers.")
    rows: NDArray[np.float32] = tensor.float().numpy()
    return rows


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    findings = Findings.of(path)
    found = findings.attempt(lambda: read_checkpoint(path, is_dummy=findings.is_drawn))
    if found is None:
        return findings.inspection({"Model": "Kokoro"})
    files = [file for file in (found.network, found.weights) if file is not None]
    names = in_order(found.voices)
    by_letter: dict[str, list[str]] = {}
    for name in names:
        by_letter.setdefault(letter_of(name), []).append(name)
    rows = [(LANGUAGES[letter].title, ", ".join(by_letter[letter])) for letter in by_letter]
    return findings.inspection(
        {
            "Model": "Kokoro",
            "Sample rate": f"{SAMPLE_RATE_HZ} Hz",
            "Phonemes": len(found.vocabulary),
            "Voices": len(names),
            "On a CPU": "ONNX Runtime" if found.network else "PyTorch",
            "On a GPU": "PyTorch" if found.weights or findings.is_drawn else "not",
            "Size": sum(file.stat().st_size for file in files),
        },
        Table(title="Voices", columns=("language", "voices"), rows=tuple(rows)),
    )
