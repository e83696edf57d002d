"""Device state of requests that all models share: one row per slot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.sampler import seed_words


@dataclass(frozen=True, slots=True)
class SlotState:
    """The state of every slot, one row each; the last row is for padding.

    Attributes:
        positions: position of the next input, int64.
        frames: number of frames so far, int64.
        min_frames: frames before which the end is not drawn, int64.
        seeds: words of `antiphon.nn.sampler.seed_words`, int64, ``[num_rows, 2]``.
        frame_store: latest frames, frame k at ``k % FRAME_STORE_FRAMES``, int64,
            ``[num_rows, FRAME_STORE_FRAMES, frame_size]``.
    """

    positions: Tensor
    frames: Tensor
    min_frames: Tensor
    seeds: Tensor
    frame_store: Tensor

    @classmethod
    def zeros(cls, num_rows: int, frame_size: int, device: torch.device) -> "SlotState":
        def integers(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        return cls(
            positions=integers(num_rows),
            frames=integers(num_rows),
            min_frames=integers(num_rows),
            seeds=integers(num_rows, 2),
            frame_store=integers(num_rows, FRAME_STORE_FRAMES, frame_size),
        )

    def start(
        self, rows: Sequence[tuple[int, int, int]], prompts: Sequence[Prompt], uploads: PackedUpload
    ) -> None:
        """Start requests; a row is ``(slot, next position, next frame)``."""
        index, positions, frames = np.array(rows, np.int64).T
        uploads.write(self.positions, index, positions)
        uploads.write(self.frames, index, frames)
        first_ends = np.array([each.sampling.first_end for each in prompts], np.int64)
        uploads.write(self.min_frames, index, first_ends)
        seeds = [prompt.seed for prompt in prompts]
        uploads.write(self.seeds, index, np.array([seed_words(seed) for seed in seeds], np.int64))

    def restore(self, made: Sequence[tuple[int, NDArray[Any]]], uploads: PackedUpload) -> None:
        """Restore the latest frames of resumed requests, by slot."""
        places = []
        for slot, frames in made:
            numbers = np.arange(max(0, len(frames) - FRAME_STORE_FRAMES), len(frames))
            places.append(slot * FRAME_STORE_FRAMES + numbers % FRAME_STORE_FRAMES)
        latest = [frames[-FRAME_STORE_FRAMES:] for _, frames in made]
        store = self.frame_store.flatten(0, 1)
        uploads.write(store, np.concatenate(places), np.concatenate(latest))

    def recent(self, index: Tensor, frames: Tensor, window: int, first: int = 0) -> Tensor:
        """Return the latest codes of group 0, int64 ``[num_rows, window]``, the latest one first.

        Args:
            frames: number of the next frame of each slot.
            window: number of codes, at most `FRAME_STORE_FRAMES`.
            first: number of the first frame that counts.

        Returns:
            The codes, -1 where there are none.
        """
        assert window <= FRAME_STORE_FRAMES, "older frames are not kept"
        numbers = frames[:, None] - torch.arange(1, window + 1, device=frames.device)
        codes = self.frame_store[index[:, None], numbers % FRAME_STORE_FRAMES, 0]
        return torch.where(numbers >= first, codes, -1)

    def advance(self, index: Tensor, positions: Tensor, frames: Tensor) -> None:
        """Advance the slots in ``index`` by one frame from ``positions`` and ``frames``.

        Padding stays at the beginning, where it costs least.
        """
        self.positions[index] = positions + 1
        self.frames[index] = frames + 1
        self.positions[-1].zero_()
        self.frames[-1].zero_()
