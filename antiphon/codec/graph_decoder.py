"""A codec's decoder on a GPU: it reads frames where the model has put them, without waiting.

A run is one CUDA graph over a number of rows and frames. Runs are padded with a row of no stream;
a row's samples depend neither on its neighbours nor on how its frames are grouped.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.plan import CodecChunk
from antiphon.engine.runner import row_buckets
from antiphon.nn.codec_layers.state import DoubleBufferedState
from antiphon.nn.graphs import Graphs, round_up
from antiphon.nn.host_device import Download, upload
from antiphon.nn.weights import Progress
from antiphon.types import Samples

_CHUNK_SIZES = (1, 4, 16)  # more sizes mean smaller batches of each
_MAX_RUN_FRAMES = 512
"""Of all rows: a GPU is full long before, and each frame takes 1.5 MB while it is decoded."""
_RUN_FRAMES_A_SLOT = 4
_NUM_PRIMED = 8
"""Primed states that are kept, of a few MB each."""


class SlotDecoder(Protocol):
    """A network that decodes frames of some slots; it can be captured in a CUDA graph."""

    def open(self, num_slots: int) -> DoubleBufferedState:
        """Return a state of fresh slots."""
        ...

    def decode(self, codes: Tensor, slots: Tensor, state: DoubleBufferedState) -> Tensor:
        """Decode ``codes``, int64 ``[k, n, num_quantizers]``, of ``slots``, int64 ``[k]``.

        Returns:
            float32 ``[k, n * samples_per_frame]``.
        """
        ...


@dataclass(frozen=True, slots=True)
class GraphState:
    """The streams of one batch, and the buffers that graphs read.

    Attributes:
        streams: one row each, and a last one for padding.
        graphs: by numbers of rows and frames.
        slots: rows of a run, int64, as many as the largest run has.
        codes: of a run, int64 ``[num_rows, n, num_quantizers]``, by number of frames.
        primed: states after priming, by the frames, most recently used last.
    """

    streams: DoubleBufferedState
    graphs: Graphs
    slots: Tensor
    codes: Mapping[int, Tensor]
    primed: OrderedDict[bytes, tuple[Tensor, ...]] = field(default_factory=OrderedDict)

    @property
    def num_slots(self) -> int:
        """Streams; the row after theirs pads runs."""
        return len(self.streams.positions) - 1


@dataclass(frozen=True, slots=True)
class PendingChunks:
    """A `antiphon.codec.protocol.PendingAudio`: copies to the host under way."""

    downloads: tuple[tuple[tuple[int, ...], Download], ...]

    @property
    def is_done(self) -> bool:
        return all(download.is_done for _, download in self.downloads)

    def wait(self) -> None:
        for _, download in self.downloads:
            download.wait()

    def result(self) -> dict[int, Samples]:
        return {  # a view would keep the pinned memory of all of them as long
            slot: samples.copy()
            for slots, download in self.downloads
            for slot, samples in zip(slots, download.wait().numpy(), strict=True)
        }


class GraphDecoder:
    """An `antiphon.codec.protocol.StreamingDecoder`; a frame is its codes, ``[num_quantizers]``.

    All work is put on the current stream.
    """

    chunk_sizes = _CHUNK_SIZES
    look_ahead_frames = 0
    group_frames = 1

    def __init__(
        self,
        decoder: SlotDecoder,
        *,
        num_quantizers: int,
        sample_rate_hz: int,
        samples_per_frame: int,
        uses_graphs: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Wrap a decoder on a GPU; ``progress`` is called for every captured graph."""
        self._decoder = decoder
        self._num_quantizers = num_quantizers
        self._uses_graphs = uses_graphs
        self._progress = progress
        self.sample_rate_hz = sample_rate_hz
        self.samples_per_frame = samples_per_frame

    @torch.inference_mode()
    def open(self, num_slots: int) -> GraphState:
        """Return fresh streams, their graphs captured."""
        streams = self._decoder.open(num_slots + 1)
        device = streams.memory.device
        num_rows = _row_buckets(num_slots, 1)[-1]
        codes = {
            num_frames: torch.zeros(
                (_row_buckets(num_slots, num_frames)[-1], num_frames, self._num_quantizers),
                dtype=torch.int64,
                device=device,
            )
            for num_frames in self.chunk_sizes
        }
        graphs = Graphs(device, is_enabled=self._uses_graphs)
        slots = torch.full((num_rows,), num_slots, device=device)
        state = GraphState(streams, graphs, slots, codes)
        if graphs.is_enabled:
            torch.cuda.synchronize(device)
            self._capture(state, num_slots)
            torch.cuda.synchronize(device)
        return state

    def on_stream(self, state: GraphState) -> AbstractContextManager[object]:
        return state.graphs.on_stream()

    @torch.inference_mode()
    def reset(self, state: GraphState, slot: int, conditioning: None = None) -> None:
        state.streams.reset(slot)

    @torch.inference_mode()
    def prime(self, state: GraphState, slot: int, frames: NDArray[Any]) -> None:
        """Prime a fresh row; the state it reaches is cached by its frames."""
        key = np.ascontiguousarray(frames, np.int64).tobytes()
        if key not in state.primed:
            self._advance(slot, frames, state)
            state.primed[key] = state.streams.snapshot(slot)
            if len(state.primed) > _NUM_PRIMED:
                state.primed.popitem(last=False)
            return
        state.primed.move_to_end(key)
        state.streams.restore(slot, state.primed[key])

    @torch.inference_mode()
    def replay(
        self, state: GraphState, slot: int, frames: NDArray[Any], num_ahead: int = 0
    ) -> None:
        self._advance(slot, frames, state)

    @torch.inference_mode()
    def launch(
        self,
        chunks: Sequence[CodecChunk],
        frame_store: Tensor | NDArray[np.integer[Any]],
        state: GraphState,
    ) -> PendingChunks:
        """Begin to decode chunks; see the protocol."""
        downloads = []
        num_kept = frame_store.shape[1]
        by_size = sorted(chunks, key=lambda chunk: chunk.num_frames)
        for num_frames, same_size in groupby(by_size, key=lambda chunk: chunk.num_frames):
            group, most = list(same_size), _max_rows(state.num_slots, num_frames)
            for part in (group[first : first + most] for first in range(0, len(group), most)):
                slots = np.array([chunk.slot for chunk in part])
                starts = np.array([chunk.start for chunk in part])
                kept = (starts[:, None] + np.arange(num_frames)) % num_kept
                if isinstance(frame_store, np.ndarray):
                    places = np.arange(kept.size).reshape(kept.shape)
                    frames = upload(frame_store[slots[:, None], kept], state.slots.device)
                else:
                    places, frames = slots[:, None] * num_kept + kept, frame_store
                audio = self._run(slots, places, frames.flatten(0, 1), state)
                downloads.append((tuple(slots.tolist()), Download(audio)))
        return PendingChunks(tuple(downloads))

    def close(self) -> None:
        """Nothing to free that does not go with it."""

    def _advance(self, slot: int, frames: NDArray[Any], state: GraphState) -> None:
        """Decode frames of the host, ``[n, num_quantizers]``, whose audio is not used."""
        store, at = upload(frames, state.slots.device), 0
        for size in self._sizes(len(frames)):
            self._run(np.array([slot]), np.arange(at, at + size)[None], store, state)
            at += size

    def _sizes(self, num_frames: int) -> Iterable[int]:
        """Cut a number of frames into chunks that there are graphs for."""
        for size in reversed(self.chunk_sizes):
            while num_frames >= size:
                yield size
                num_frames -= size

    def _run(
        self, slots: NDArray[Any], places: NDArray[Any], frames: Tensor, state: GraphState
    ) -> Tensor:
        """Decode ``frames[places]``, int ``[k, n]``; the result holds until the next run."""
        num_rows, num_frames = places.shape
        sizes = _row_buckets(state.num_slots, num_frames)
        key = (round_up(num_rows, sizes), num_frames)
        both = np.zeros((key[0], 1 + num_frames), np.int64)
        both[:, 0] = state.num_slots  # the padding row
        both[:num_rows, 0], both[:num_rows, 1:] = slots, places
        chosen = upload(both, state.slots.device)
        state.slots[: key[0]].copy_(chosen[:, 0])
        state.codes[num_frames][: key[0]].copy_(frames[chosen[:, 1:]])
        return state.graphs.run(key, partial(self._decode_buffered, state, *key))[:num_rows]

    def _decode_buffered(self, state: GraphState, num_rows: int, num_frames: int) -> Tensor:
        codes = state.codes[num_frames][:num_rows]
        return self._decoder.decode(codes, state.slots[:num_rows], state.streams)

    def _capture(self, state: GraphState, num_slots: int) -> None:
        keys = [
            (num_rows, num_frames)
            for num_frames in self.chunk_sizes
            for num_rows in _row_buckets(num_slots, num_frames)
        ]
        largest_first = sorted(keys, key=lambda key: -key[0] * key[1])  # others fit in its memory
        for number, key in enumerate(largest_first, start=1):
            state.graphs.capture(key, partial(self._decode_buffered, state, *key))
            if self._progress is not None:
                self._progress(number, len(keys))
        state.graphs.settle()


def _row_buckets(num_slots: int, num_frames: int) -> tuple[int, ...]:
    """Return the numbers of rows that runs are padded to."""
    return row_buckets(_max_rows(num_slots, num_frames))


def _max_rows(num_slots: int, num_frames: int) -> int:
    """Return how many rows a run has at most; few slots shall not take memory for many."""
    max_frames = min(_MAX_RUN_FRAMES, max(_CHUNK_SIZES[-1], _RUN_FRAMES_A_SLOT * num_slots))
    return min(num_slots, max_frames // num_frames)
