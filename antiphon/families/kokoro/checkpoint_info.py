"""Inspection of a checkpoint without loading its network."""

from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError
from antiphon.families.kokoro.checkpoint import SAMPLE_RATE_HZ, read_checkpoint
from antiphon.families.kokoro.languages import LANGUAGES
from antiphon.families.kokoro.voices import in_order, letter_of


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    try:
        found = read_checkpoint(path)
    except ModelLoadError as error:
        return Inspection(facts={"Model": "Kokoro"}, problems=(error.message,))
    files = [file for file in (found.network, found.weights) if file is not None]
    names = in_order(found.voices)
    by_letter: dict[str, list[str]] = {}
    for name in names:
        by_letter.setdefault(letter_of(name), []).append(name)
    rows = [(LANGUAGES[letter].title, ", ".join(by_letter[letter])) for letter in by_letter]
    return Inspection(
        facts={
            "Model": "Kokoro",
            "Sample rate": f"{SAMPLE_RATE_HZ} Hz",
            "Phonemes": len(found.vocabulary),
            "Voices": len(names),
            "On a CPU": "ONNX Runtime" if found.network else "PyTorch",
            "On a GPU": "PyTorch" if found.weights else "not",
            "Size": sum(file.stat().st_size for file in files),
        },
        tables=(Table(title="Voices", columns=("language", "voices"), rows=tuple(rows)),),
    )
