"""Shards of a dataset: files of recordings or codes with their texts, complete once they exist.

A shard is a NumPy archive. ``audio-*.npz`` has ``audio`` (int16, 24 kHz), ``codes-*.npz`` has
``codes`` (uint16 ``[total_frames, num_codebooks]``); both have ``offsets`` (int64 ``[n + 1]``:
where each text begins), ``texts`` (str ``[n]``) and ``speaker`` (str). Audio of synthetic speakers
has ``phonemes`` too.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["audio", "codes"]


LABEL_SAMPLES = 240
"""Samples of a shard for which it says what phoneme they are of."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Recordings or codes, one behind the other, with their texts.

    Attributes:
        rows: samples or frames of all texts.
        offsets: first row of each text, and the end.
        texts: spoken form of each.
        speaker: name of the speaker.
        phonemes: number of the phoneme at every `LABEL_SAMPLES` samples of the whole shard, uint8;
            ``None``: unknown.
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
