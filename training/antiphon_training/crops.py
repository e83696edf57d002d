"""Crops of recordings, drawn on the device that trains."""

import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from antiphon_training.replicas import Replicas
from antiphon_training.shards import (
    FRAME_LABEL_SAMPLES,
    LABEL_SAMPLES,
    LABELS_PER_FRAME,
    UNKNOWN,
    Shard,
    shard_files,
)
from antiphon_training.sizes import FRAME_SAMPLES, SAMPLE_RATE_HZ

_GROWTH = 2


@dataclass(frozen=True, slots=True)
class Drawn:
    """Crops of recordings.

    Attributes:
        samples: float32 ``[num_rows, 1, length]``.
        phonemes: int64 ``[num_rows, frames, LABELS_PER_FRAME]``; `UNKNOWN`.
    """

    samples: Tensor
    phonemes: Tensor


class Crops:
    """Recordings of a folder in the device's memory; new shards are added while others write.

    An hour takes 173 MB. Replicas share the shards between them.
    """

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        seed: int,
        replicas: Replicas | None = None,
        *,
        most_hours: float = math.inf,
    ) -> None:
        self._folder, self._replicas = folder, replicas or Replicas()
        self._most_samples = most_hours * 3600 * SAMPLE_RATE_HZ / self._replicas.count
        self._read: set[Path] = set()
        self._audio = torch.empty(0, dtype=torch.int16, device=device)
        self._phonemes = torch.empty(0, dtype=torch.uint8, device=device)
        self._starts = torch.empty(0, dtype=torch.int64, device=device)
        self.num_samples = 0
        self.random = torch.Generator(device=device)
        self.random.manual_seed(seed + self._replicas.rank)

    def refresh(self) -> None:
        """Add the shards that appeared since the last call."""
        device, starts = self._audio.device, [self._starts]
        for path in shard_files(self._folder, "audio"):
            if path in self._read or not self._is_own(path):
                continue
            if self.num_samples > self._most_samples:
                break
            self._read.add(path)
            shard = Shard.read(path, "audio")
            num_labels = -(-len(shard.rows) // LABEL_SAMPLES)
            start = self.num_samples // LABEL_SAMPLES
            self._reserve(start + num_labels)
            padded = np.pad(shard.rows, (0, num_labels * LABEL_SAMPLES - len(shard.rows)))
            end = self.num_samples + len(padded)
            self._audio[self.num_samples : end] = torch.from_numpy(padded).to(device)
            labels = shard.phonemes
            if labels is None:
                labels = np.full(num_labels, UNKNOWN, np.uint8)
            self._phonemes[start : start + num_labels] = torch.from_numpy(labels).to(device)
            offsets = torch.from_numpy(shard.offsets[:-1]).to(device)
            starts.append(offsets + self.num_samples)
            self.num_samples = end
        self._starts = torch.cat(starts)

    def _reserve(self, num_labels: int) -> None:
        """Make room for so many labels and their samples."""
        if num_labels > len(self._phonemes):
            self._audio = _grown(self._audio, _GROWTH * num_labels * LABEL_SAMPLES)
            self._phonemes = _grown(self._phonemes, _GROWTH * num_labels)

    def _is_own(self, path: Path) -> bool:
        return zlib.crc32(path.name.encode()) % self._replicas.count == self._replicas.rank

    def draw(self, num_rows: int, length: int, *, from_start: bool = False) -> Drawn:
        """Return crops of so many samples.

        A crop may contain the end of a recording and the beginning of the next.

        Args:
            from_start: whether crops begin where recordings do, as everything decoded later does.
        """
        device, last = self._audio.device, self.num_samples - length
        if last < 0:
            raise ValueError(f"{self._folder} has too little audio: {self.num_samples} samples")
        if from_start:
            picks = torch.randint(
                len(self._starts), (num_rows,), generator=self.random, device=device
            )
            starts = self._starts[picks].clamp(max=last)
        else:
            starts = torch.randint(last + 1, (num_rows,), generator=self.random, device=device)
        rows = starts[:, None] + torch.arange(length, device=device)
        samples = (self._audio[rows].float() / 32768)[:, None]
        num_labels = length // FRAME_SAMPLES * LABELS_PER_FRAME
        steps = torch.arange(num_labels, device=device)
        places = FRAME_LABEL_SAMPLES // 2 + FRAME_LABEL_SAMPLES * steps
        labels = self._phonemes[(starts[:, None] + places) // LABEL_SAMPLES].long()
        return Drawn(
            samples, labels.view(num_rows, num_labels // LABELS_PER_FRAME, LABELS_PER_FRAME)
        )


def _grown(values: Tensor, length: int) -> Tensor:
    grown = values.new_empty(length)
    grown[: len(values)] = values
    return grown
