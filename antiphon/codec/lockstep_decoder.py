"""A codec's decoder in PyTorch lines: the rows of a pass advance together, one frame at a time.

Every frame is decoded by a pass of the same length, so that it does not matter how frames are
grouped. On the host a pass has one row, and is exact; on a GPU it has as many as there are, rounded
up to the sizes of CUDA graphs, and a row differs by rounding at most from one batch to another.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.codec.pending import FrameStore, PendingDownloads, stored_frames
from antiphon.engine.plan import CodecChunk
from antiphon.engine.runner import row_buckets
from antiphon.nn.codec_layers.state import DecoderState
from antiphon.nn.device_writes import Download, upload
from antiphon.nn.graphs import Graphs, round_up
from antiphon.nn.precision import exact_float32
from antiphon.nn.weights import Progress


class FrameNetwork(Protocol):
    """A network that decodes one frame in each of several rows."""

    def open(self, num_slots: int) -> DecoderState:
        """Return a state of fresh slots."""

    def decode(self, frames: Tensor, rows: DecoderState) -> Tensor:
        """Decode the next frame of each row, and advance the rows in place.

        It can be captured in a CUDA graph.

        Args:
            frames: int64 ``[num_rows, frame_size]``.
            rows: Rows of the same number.

        Returns:
            float32 ``[num_rows, samples_per_frame]``.
        """


@dataclass(frozen=True, slots=True)
class LockstepState:
    """The streams of one batch, and the buffers that graphs read.

    Attributes:
        streams: one row each, and a last one for padding.
        graphs: CUDA graphs by number of rows.
        sizes: these numbers, ascending.
        index: rows of a pass, int64, as many as the largest has.
        frames: Frames of a pass, int64 ``[n, frame_size]``.
    """

    streams: DecoderState
    graphs: Graphs
    sizes: tuple[int, ...]
    index: Tensor
    frames: Tensor

    @property
    def padding(self) -> int:
        """The row that fills up a pass."""
        return self.streams.num_slots - 1


class LockstepDecoder:
    """An `antiphon.codec.protocol.StreamingDecoder`; all work is put on the current stream."""

    chunk_sizes = (1, 2, 4, 8, 16)
    look_ahead_frames = 0
    group_frames = 1

    def __init__(
        self,
        network: FrameNetwork,
        *,
        frame_size: int,
        sample_rate_hz: int,
        samples_per_frame: int,
        progress: Progress | None = None,
    ) -> None:
        """Wrap a network; ``progress`` is called for every captured graph."""
        self._network = network
        self._frame_size = frame_size
        self._progress = progress
        self.sample_rate_hz = sample_rate_hz
        self.samples_per_frame = samples_per_frame

    @torch.inference_mode()
    def open(self, num_slots: int) -> LockstepState:
        """Return fresh streams, their graphs captured."""
        streams = self._network.open(num_slots + 1)
        device = streams.memory.device
        sizes = row_buckets(num_slots) if device.type == "cuda" else (1,)
        state = LockstepState(
            streams,
            Graphs(device),
            sizes,
            torch.full((sizes[-1],), num_slots, device=device),
            torch.zeros(sizes[-1], self._frame_size, dtype=torch.int64, device=device),
        )
        if state.graphs.is_enabled:
            torch.cuda.synchronize(device)
            self._capture(state)
            torch.cuda.synchronize(device)
        return state

    def on_stream(self, state: LockstepState) -> AbstractContextManager[object]:
        return state.graphs.on_stream()

    @torch.inference_mode()
    def reset(self, state: LockstepState, slot: int, conditioning: None = None) -> None:
        state.streams.reset(slot)

    def prime(self, state: LockstepState, slot: int, frames: NDArray[Any]) -> None:
        self.replay(state, slot, frames)

    @torch.inference_mode()
    def replay(
        self, state: LockstepState, slot: int, frames: NDArray[Any], num_ahead: int = 0
    ) -> None:
        numbers = upload(np.asarray(frames), state.index.device)
        for frame in numbers:
            self._run([slot], frame[None], state)

    @torch.inference_mode()
    def launch(
        self, chunks: Sequence[CodecChunk], frame_store: FrameStore, state: LockstepState
    ) -> PendingDownloads:
        """Begin to decode chunks; see the protocol."""
        chunks = sorted(chunks, key=lambda chunk: -chunk.num_frames)  # those that go on come first
        size, num_kept = self.samples_per_frame, frame_store.shape[1]
        longest = chunks[0].num_frames
        device = state.index.device
        places = np.zeros((longest, len(chunks)), np.int64)
        for column, each in enumerate(chunks):
            numbers = np.arange(each.start, each.start + each.num_frames) % num_kept
            places[: each.num_frames, column] = each.slot * num_kept + numbers
        frames = stored_frames(frame_store, places, state.index)
        audio = torch.zeros(len(chunks), longest * size, device=device)
        for number in range(longest):
            slots = [each.slot for each in chunks if each.num_frames > number]
            start = number * size
            for first in range(0, len(slots), state.sizes[-1]):
                part = slots[first : first + state.sizes[-1]]
                last = first + len(part)
                made = self._run(part, frames[number, first:last], state)
                audio[first:last, start : start + size] = made
        rows = {each.slot: (row, slice(each.num_frames * size)) for row, each in enumerate(chunks)}
        return PendingDownloads([(rows, Download(audio))])

    def close(self) -> None:
        """Nothing to free that does not go with it."""

    def _run(self, slots: Sequence[int], frames: Tensor, state: LockstepState) -> Tensor:
        """Decode a frame of each slot, ``[len(slots), frame_size]``; until the next pass."""
        size = round_up(len(slots), state.sizes)
        index = np.full(size, state.padding)
        index[: len(slots)] = slots
        state.index[:size].copy_(upload(index, state.index.device))
        state.frames[: len(slots)].copy_(frames)
        audio = state.graphs.run(size, partial(self._decode, state, size))
        return audio[: len(slots)]

    def _decode(self, state: LockstepState, size: int) -> Tensor:
        index = state.index[:size]
        rows = state.streams.gather(index)
        audio = self._network.decode(state.frames[:size], rows)
        state.streams.scatter(index, rows)
        return audio

    def _capture(self, state: LockstepState) -> None:
        for number, size in enumerate(reversed(state.sizes), start=1):  # others fit in its memory
            with exact_float32():
                state.graphs.capture(size, partial(self._decode, state, size))
            if self._progress is not None:
                self._progress(number, len(state.sizes))
        state.graphs.settle()
