"""Crops of recordings, drawn on the device that trains."""

import zlib
from pathlib import Path

import torch
from torch import Tensor

from antiphon_training.replicas import Replicas
from antiphon_training.shards import Shard, shard_files

_GROWTH = 2


class Crops:
    """Recordings of a folder in the device's memory; new shards are added while others write.

    An hour takes 173 MB. Replicas share the shards between them.
    """

    def __init__(
        self, folder: Path, device: torch.device, seed: int, replicas: Replicas | None = None
    ) -> None:
        self._folder, self._replicas = folder, replicas or Replicas()
        self._read: set[Path] = set()
        self._audio = torch.empty(0, dtype=torch.int16, device=device)
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
            self._read.add(path)
            shard = Shard.read(path, "audio")
            end = self.num_samples + len(shard.rows)
            if end > len(self._audio):
                grown = self._audio.new_empty(_GROWTH * end)
                grown[: self.num_samples] = self._audio[: self.num_samples]
                self._audio = grown
            self._audio[self.num_samples : end] = torch.from_numpy(shard.rows).to(device)
            offsets = torch.from_numpy(shard.offsets[:-1]).to(device)
            starts.append(offsets + self.num_samples)
            self.num_samples = end
        self._starts = torch.cat(starts)

    def _is_own(self, path: Path) -> bool:
        return zlib.crc32(path.name.encode()) % self._replicas.count == self._replicas.rank

    def draw(self, num_rows: int, length: int, *, from_start: bool = False) -> Tensor:
        """Return crops, float32 ``[num_rows, 1, length]``.

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
        return (self._audio[rows].float() / 32768)[:, None]
