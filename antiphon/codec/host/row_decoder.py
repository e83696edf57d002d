"""A base of decoders on the host, made of a function that decodes one row."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.codec.protocol import PendingAudio
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.engine.runner import Done


class RowDecoder(ABC):
    """The calls of a `StreamingDecoder` that decode, made of `decode_row`."""

    samples_per_frame: int
    chunk_sizes: tuple[int, ...] = (1, 2, 4, 8, 16)
    look_ahead_frames = 0
    group_frames = 1

    @abstractmethod
    def decode_row(self, frames: NDArray[Any], state: Any, slot: int) -> Samples:
        """Decode the next frames of one row, ``[n, ...]``; return ``[n * samples_per_frame]``."""

    def on_stream(self, state: Any) -> AbstractContextManager[object]:
        return nullcontext()

    def prime(self, state: Any, slot: int, frames: NDArray[Any]) -> None:
        self.decode_row(frames, state, slot)

    def replay(self, state: Any, slot: int, frames: NDArray[Any], num_ahead: int = 0) -> None:
        self.decode_row(frames, state, slot)

    def launch(
        self, chunks: Sequence[CodecChunk], frame_store: NDArray[Any], state: Any
    ) -> PendingAudio:
        audio = {}
        for each in chunks:
            places = np.arange(each.start, each.start + each.num_frames) % frame_store.shape[1]
            audio[each.slot] = self.decode_row(frame_store[each.slot, places], state, each.slot)
        return Done(audio)
