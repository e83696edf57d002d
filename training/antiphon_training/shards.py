"""Shards of a dataset: files of recordings or codes with their texts, complete once they exist.

A shard is a NumPy archive. ``audio-*.npz`` has ``audio`` (int16, 24 kHz), ``codes-*.npz`` has
``codes`` (uint16 ``[total_frames, num_codebooks]``); both have ``offsets`` (int64 ``[n + 1]``:
where each text begins), ``texts`` (str ``[n]``) and ``speaker`` (str). Those of synthetic speakers
have ``phonemes`` too: of audio the number of the phoneme at every `LABEL_SAMPLES` samples of the
whole shard, of codes those within each frame (uint8 ``[total_frames, LABELS_PER_FRAME]``).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from antiphon_training.sizes import FRAME_SAMPLES

Kind = Literal["audio", "codes"]

LABEL_SAMPLES = 240
LABELS_PER_FRAME = 2
FRAME_LABEL_SAMPLES = FRAME_SAMPLES // LABELS_PER_FRAME
UNKNOWN = 255
"""Label of a phoneme that is not known."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Recordings or codes, one behind the other, with their texts.

    Attributes:
        rows: samples or frames of all texts.
        offsets: first row of each text, and the end.
        texts: spoken form of each.
        speaker: name of the speaker.
        phonemes: labels, as the file has them; ``None``: unknown.
    """

    rows: NDArray[Any]
    offsets: NDArray[np.int64]
    texts: tuple[str, ...]
    speaker: str
    phonemes: NDArray[np.uint8] | None = None

    @classmethod
    def of(
        cls,
        parts: Sequence[NDArray[Any]],
        texts: Sequence[str],
        speaker: str,
        phonemes: Sequence[NDArray[np.uint8]] | None = None,
    ) -> "Shard":
        """Join the rows of each text, and the phonemes at each row."""
        ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        labels = None if phonemes is None else np.concatenate(list(phonemes))[::LABEL_SAMPLES]
        return cls(np.concatenate(list(parts)), ends, tuple(texts), speaker, labels)

    def part(self, index: int) -> NDArray[Any]:
        """Return the rows of a text."""
        return self.rows[self.offsets[index] : self.offsets[index + 1]]

    def frame_labels(self, index: int, num_frames: int) -> NDArray[np.uint8]:
        """Return the phonemes within each frame of a recording, ``[num_frames, labels]``."""
        if self.phonemes is None:
            return np.full((num_frames, LABELS_PER_FRAME), UNKNOWN, np.uint8)
        start, end = self.offsets[index : index + 2]
        steps = np.arange(num_frames * LABELS_PER_FRAME)
        places = start + FRAME_LABEL_SAMPLES // 2 + FRAME_LABEL_SAMPLES * steps
        # What completes the last frame is as silent as the end of the recording.
        labels: NDArray[np.uint8] = self.phonemes[np.minimum(places, end - 1) // LABEL_SAMPLES]
        return labels.reshape(num_frames, LABELS_PER_FRAME)

    def write(self, path: Path, kind: Kind) -> None:
        """Write the file, which appears complete or not at all."""
        content: dict[str, Any] = {
            kind: self.rows,
            "offsets": self.offsets,
            "texts": np.array(self.texts),
            "speaker": np.array(self.speaker),
        }
        if self.phonemes is not None:
            content["phonemes"] = self.phonemes
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        with partial.open("wb") as file:
            np.savez(file, **content)
        partial.replace(path)

    @classmethod
    def read(cls, path: Path, kind: Kind) -> "Shard":
        with np.load(path) as content:
            texts = tuple(map(str, content["texts"]))
            return cls(
                content[kind],
                content["offsets"],
                texts,
                str(content["speaker"]),
                content.get("phonemes"),
            )


def shard_files(folder: Path, kind: Kind) -> list[Path]:
    """Return the shards that exist by now, sorted."""
    return sorted(folder.glob(f"{kind}-*.npz"))


HELD_OUT = "held-out"


def held_out_file(folder: Path, speaker: str) -> Path:
    """Return the file of recordings that no training sees."""
    return folder / f"{HELD_OUT}-{speaker}.npz"
