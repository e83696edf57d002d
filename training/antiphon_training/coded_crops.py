"""Crops of recordings with given codes, of whole frames."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from antiphon_training.shards import Shard, shard_files
from antiphon_training.sizes import FRAME_SAMPLES


@dataclass(frozen=True, slots=True)
class CodedCrop:
    """Crops with their codes.

    Attributes:
        samples: float32 ``[num_rows, 1, num_frames * FRAME_SAMPLES]``.
        codes: int64 ``[num_rows, num_frames, num_codebooks]``.
    """

    samples: Tensor
    codes: Tensor


class CodedCrops:
    """Recordings of a folder and their codes, in the device's memory.

    Each ``codes-*.npz`` has an ``audio-*.npz`` of the same name, written before it, in which
    recordings are whole frames. The folder may appear later, and shards too.
    """

    def __init__(self, folder: Path, device: torch.device, random: torch.Generator) -> None:
        self._folder, self._device, self._random = folder, device, random
        self._read: set[Path] = set()
        self._samples = torch.empty(0, FRAME_SAMPLES, dtype=torch.int16, device=device)
        self._codes = torch.empty(0, 0, dtype=torch.int16, device=device)
        self._starts = torch.empty(0, dtype=torch.int64, device=device)

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._samples)

    def refresh(self) -> None:
        """Add the shards that appeared since the last call."""
        samples, codes, starts = [self._samples], [self._codes], [self._starts]
        end = len(self._samples)
        for path in shard_files(self._folder, "codes"):
            if path in self._read:
                continue
            self._read.add(path)
            coded = Shard.read(path, "codes")
            audio = Shard.read(path.with_name(path.name.replace("codes-", "audio-")), "audio")
            samples.append(torch.from_numpy(audio.rows.reshape(-1, FRAME_SAMPLES)).to(self._device))
            codes.append(torch.from_numpy(coded.rows.astype(np.int16)).to(self._device))
            starts.append(torch.from_numpy(coded.offsets[:-1]).to(self._device) + end)
            end += len(coded.rows)
        self._samples, self._starts = torch.cat(samples), torch.cat(starts)
        self._codes = torch.cat([each for each in codes if len(each)] or codes)

    def draw(self, num_rows: int, num_frames: int, *, from_start: bool = False) -> CodedCrop:
        """Return crops of so many frames.

        Args:
            from_start: whether crops begin where recordings do.
        """
        last = len(self) - num_frames
        if from_start:
            picks = self._integers(len(self._starts), num_rows)
            starts = self._starts[picks].clamp(max=last)
        else:
            starts = self._integers(last + 1, num_rows)
        frames = starts[:, None] + torch.arange(num_frames, device=self._device)
        samples = (self._samples[frames].flatten(1).float() / 32768)[:, None]
        return CodedCrop(samples, self._codes[frames].long())

    def _integers(self, end: int, count: int) -> Tensor:
        return torch.randint(end, (count,), generator=self._random, device=self._device)
