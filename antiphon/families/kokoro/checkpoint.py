"""Files of a checkpoint directory, in the official layout or in that of the ONNX export."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError

STYLE_SIZE = 256
"""Numbers of a style: the first half is the decoder's, the second the prosody's."""
PAD_ID = 0
MAX_PHONEMES = 510
"""The networks know 512 positions, the padding at both ends included."""
SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 600
"""Durations are whole numbers of frames of 25 ms."""

_NETWORKS = (  # the first one that is there
    *("model.onnx", "model_quantized.onnx", "model_q8f16.onnx", "model_uint8.onnx"),
    *("model_fp16.onnx", "model_uint8f16.onnx", "model_q4.onnx", "model_q4f16.onnx"),
)
_VOICE_NAME = re.compile(r"\w+")
_STYLE_BYTES = 4 * STYLE_SIZE
_BOPOMOFO = "ㄅ"


@dataclass(frozen=True, slots=True)
class KokoroCheckpoint:
    """Vocabulary and file paths of a checkpoint.

    Attributes:
        path: the directory.
        vocabulary: the numbers of phonemes.
        network: the ONNX export, if there is one.
        weights: the original weights, if they are there.
        voices: the files of styles by voice, sorted.
    """

    path: Path
    vocabulary: Mapping[str, int]
    network: Path | None
    weights: Path | None
    voices: Mapping[str, Path]


def read_checkpoint(path: Path | None) -> KokoroCheckpoint:
    """Look at a directory; no weights are read.

    Raises:
        ModelLoadError: The checkpoint is of another family, or incomplete.
    """
    assert path is not None, "the family needs a checkpoint"
    found = KokoroCheckpoint(
        path,
        _vocabulary(path),
        _network(path),
        next(iter(sorted(path.glob("*.pth"))), None),
        _voices(path),
    )
    if _BOPOMOFO in found.vocabulary:
        raise ModelLoadError(
            f"{path}: the phonemes of Kokoro v1.1-zh are not supported, v1.0's are."
        )
    if found.network is None and found.weights is None:
        raise ModelLoadError(f"{path}: there is neither a *.pth nor an onnx/model.onnx.")
    if not found.voices:
        raise ModelLoadError(f"{path / 'voices'}: there is no voice, neither *.bin nor *.pt.")
    return found


def _vocabulary(path: Path) -> Mapping[str, int]:
    config = ConfigSection.read(path / "config.json")
    if "vocab" not in config.values:
        config = ConfigSection.read(path / "tokenizer.json").section("model")
    vocabulary = config.section("vocab")
    ids = {each: vocabulary.integer(each) for each in vocabulary.values}
    size = config.integer("n_token", 0)
    for phoneme, number in ids.items():
        if size and number >= size:
            raise vocabulary.error(phoneme, f"must be below 'n_token', {size}, but is {number}")
    return MappingProxyType(ids)


def _network(path: Path) -> Path | None:
    places = [path / "onnx" / name for name in _NETWORKS]
    return next(
        (place for place in (*places, *sorted(path.glob("*.onnx"))) if place.exists()), None
    )


def _voices(path: Path) -> Mapping[str, Path]:
    """Return the files of voices; of two of one name the one that needs no PyTorch.

    Raises:
        ModelLoadError: The name of a file cannot be determined, or a file is incomplete.
    """
    files = [*(path / "voices").glob("*.pt"), *(path / "voices").glob("*.bin")]
    found = {file.stem: file for file in files}
    if unusable := next((each for each in found if not _VOICE_NAME.fullmatch(each)), None):
        raise ModelLoadError(
            f"{found[unusable]}: a voice's name has letters, digits and '_' only, since mixes are"
            " written with other signs. Rename the file."
        )
    for file in found.values():
        size = file.stat().st_size
        if size == 0 or (file.suffix == ".bin" and size % _STYLE_BYTES):
            raise ModelLoadError(f"{file}: is no table of styles of {STYLE_SIZE} numbers.")
    return MappingProxyType({name: found[name] for name in sorted(found)})
