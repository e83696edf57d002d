"""A codec's decoder on a GPU: it reads frames where the model has put them, without waiting.

A step's chunks are decoded in one pass, whatever their sizes: their frames stand one below the
other, and a table maps each to its stream. A pass is one CUDA graph over a number of frames,
padded with frames of no stream. A row's samples depend neither on its neighbours nor on how its
frames are grouped.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, starmap
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.codec.pending import FrameStore, PendingDownloads
from antiphon.engine.plan import CodecChunk
from antiphon.engine.runner import frame_buckets
from antiphon.nn.codec_layers.frame_table import empty_table, fill
from antiphon.nn.codec_layers.state import DoubleBufferedState
from antiphon.nn.device_writes import Download, Staging, upload
from antiphon.nn.graphs import Graphs, round_up
from antiphon.nn.weights import Progress

_MAX_CHUNK_FRAMES = 16
_MAX_PASS_FRAMES = 512
"""Of all rows: a GPU is full long before, and each frame takes 1.5 MB while it is decoded."""
_PASS_FRAMES_A_SLOT = 4
_NUM_PRIMED = 8
"""Primed states that are kept, of a few MB each."""


class SlotDecoder(Protocol):
    """A network that decodes frames of some slots; it can be captured in a CUDA graph."""

    def open(self, num_slots: int) -> DoubleBufferedState:
        """Return a state of fresh slots."""

    def decode(
        self, codes: Tensor, table: Tensor, state: DoubleBufferedState, max_row_frames: int
    ) -> Tensor:
        """Decode ``codes``, int64 ``[n, num_quantizers]``, of the slots in ``table``.

        Returns:
            float32 ``[n, samples_per_frame]``.
        """


@dataclass(frozen=True, slots=True)
class GraphState:
    """The streams of one batch, and the buffers that graphs read.

    Attributes:
        streams: one row each, and a last one for padding.
        graphs: CUDA graphs by number of frames.
        sizes: these numbers, ascending.
        table: Owners of the frames of a pass, see `antiphon.nn.codec_layers.frame_table`.
        places: Positions of the frames of a pass, after the table in one tensor, int32 ``[n]``.
        staging: Pinned copy of this tensor.
        codes: Codes of a pass, int64 ``[n, num_quantizers]``, with the rows of the largest.
        primed: states after priming, by the frames, most recently used last.
    """

    streams: DoubleBufferedState
    graphs: Graphs
    sizes: tuple[int, ...]
    table: Tensor
    places: Tensor
    staging: Staging
    codes: Tensor
    primed: OrderedDict[bytes, tuple[Tensor, ...]] = field(default_factory=OrderedDict)

    @property
    def num_slots(self) -> int:
        """Streams; the row after theirs pads passes."""
        return len(self.streams.positions) - 1


class GraphDecoder:
    """An `antiphon.codec.protocol.StreamingDecoder`; a frame is its codes, ``[num_quantizers]``.

    All work is put on the current stream.
    """

    chunk_sizes = tuple(range(1, _MAX_CHUNK_FRAMES + 1))
    look_ahead_frames = 0
    group_frames = 1

    def __init__(
        self,
        decoder: SlotDecoder,
        *,
        num_quantizers: int,
        sample_rate_hz: int,
        samples_per_frame: int,
        progress: Progress | None = None,
    ) -> None:
        """Wrap a decoder on a GPU; ``progress`` is called for every captured graph."""
        self._decoder = decoder
        self._num_quantizers = num_quantizers
        self._progress = progress
        self.sample_rate_hz = sample_rate_hz
        self.samples_per_frame = samples_per_frame

    @torch.inference_mode()
    def open(self, num_slots: int) -> GraphState:
        """Return fresh streams, their graphs captured."""
        streams = self._decoder.open(num_slots + 1)
        device = streams.memory.device
        # Few slots shall not take memory for many.
        wanted = max(_MAX_CHUNK_FRAMES, _PASS_FRAMES_A_SLOT * num_slots)
        sizes = frame_buckets(min(_MAX_PASS_FRAMES, wanted))
        codes = torch.zeros((sizes[-1], self._num_quantizers), dtype=torch.int64, device=device)
        graphs = Graphs(device)
        numbers = empty_table(sizes[-1], device, num_more=1)
        table, places, staging = numbers[:-1], numbers[-1], Staging(numbers)
        state = GraphState(streams, graphs, sizes, table, places, staging, codes)
        if graphs.is_enabled:
            torch.cuda.synchronize(device)
            self._capture(state)
            torch.cuda.synchronize(device)
        return state

    def on_stream(self, state: GraphState) -> AbstractContextManager[object]:
        return state.graphs.on_stream()

    @torch.inference_mode()
    def reset(self, state: GraphState, slot: int, conditioning: None = None) -> None:
        state.streams.reset(slot)

    @torch.inference_mode()
    def prime(self, state: GraphState, slot: int, frames: NDArray[Any]) -> None:
        self.prime_rows(state, {slot: frames})

    @torch.inference_mode()
    def prime_rows(self, state: GraphState, rows: Mapping[int, NDArray[Any]]) -> None:
        """Prime fresh rows; the states that they reach are cached by their frames."""
        keys = {slot: np.ascontiguousarray(each, np.int64).tobytes() for slot, each in rows.items()}
        new = {key: slot for slot, key in keys.items() if key not in state.primed}
        self._advance({slot: rows[slot] for slot in new.values()}, state)
        for key, slot in new.items():
            state.primed[key] = state.streams.snapshot(slot)
        for slot, key in keys.items():
            state.primed.move_to_end(key)
            if new.get(key) != slot:
                state.streams.restore(slot, state.primed[key])
        while len(state.primed) > _NUM_PRIMED:
            state.primed.popitem(last=False)

    @torch.inference_mode()
    def replay(
        self, state: GraphState, slot: int, frames: NDArray[Any], num_ahead: int = 0
    ) -> None:
        self._advance({slot: frames}, state)

    @torch.inference_mode()
    def launch(
        self, chunks: Sequence[CodecChunk], frame_store: FrameStore, state: GraphState
    ) -> PendingDownloads:
        """Begin to decode chunks; see the protocol."""
        downloads = []
        num_kept = frame_store.shape[1]
        for part in _passes(chunks, state.sizes[-1]):
            rows = [(chunk.slot, chunk.num_frames) for chunk in part]
            kept = np.concatenate(
                [np.arange(each.start, each.start + each.num_frames) % num_kept for each in part]
            )
            slots = np.repeat(*np.array(rows).T)
            if isinstance(frame_store, np.ndarray):
                places = np.arange(len(kept))
                frames = upload(frame_store[slots, kept], state.table.device)
            else:
                places, frames = slots * num_kept + kept, frame_store.flatten(0, 1)
            ends = np.cumsum([0, *(num_frames for _, num_frames in rows)]).tolist()
            samples = Download(self._run(rows, places, frames, state))
            spans = zip(rows, starmap(slice, pairwise(ends)), strict=True)
            downloads.append(({slot: span for (slot, _), span in spans}, samples))
        return PendingDownloads(downloads)

    def close(self) -> None:
        """Nothing to free that does not go with it."""

    def _advance(self, rows: Mapping[int, NDArray[Any]], state: GraphState) -> None:
        """Decode frames of the host, ``[n, num_quantizers]`` each, whose audio is not used."""
        if not rows:
            return
        store = upload(np.concatenate([*rows.values()]), state.table.device)
        firsts = np.cumsum([0, *map(len, rows.values())])[:-1].tolist()
        begins = dict(zip(rows, firsts, strict=True))
        for start in range(0, max(map(len, rows.values())), _MAX_CHUNK_FRAMES):
            chunks = [
                CodecChunk(slot, start, min(_MAX_CHUNK_FRAMES, len(frames) - start))
                for slot, frames in rows.items()
                if len(frames) > start
            ]
            for part in _passes(chunks, state.sizes[-1]):
                numbers = [(begins[each.slot] + start, each.num_frames) for each in part]
                places = np.concatenate([np.arange(at, at + count) for at, count in numbers])
                self._run([(each.slot, each.num_frames) for each in part], places, store, state)

    def _run(
        self,
        rows: Sequence[tuple[int, int]],
        places: NDArray[Any],
        frames: Tensor,
        state: GraphState,
    ) -> Tensor:
        """Decode ``frames[places]``, int ``[n]``, of rows; the result holds until the next pass."""
        size = round_up(len(places), state.sizes)
        staged = state.staging.stage()
        fill(staged, rows, size, state.num_slots, _MAX_CHUNK_FRAMES)
        staged[-1, : len(places)] = places
        staged[-1, len(places) :] = 0
        state.staging.send()
        torch.index_select(frames, 0, state.places[:size], out=state.codes[:size])
        return state.graphs.run(size, partial(self._decode_buffered, state, size))[: len(places)]

    def _decode_buffered(self, state: GraphState, size: int) -> Tensor:
        codes = state.codes[:size]
        return self._decoder.decode(codes, state.table, state.streams, _MAX_CHUNK_FRAMES)

    def _capture(self, state: GraphState) -> None:
        for number, size in enumerate(reversed(state.sizes), start=1):  # others fit in its memory
            fill(state.staging.stage(), [], size, state.num_slots, _MAX_CHUNK_FRAMES)
            state.staging.send()
            torch.cuda.synchronize(state.table.device)
            state.graphs.capture(size, partial(self._decode_buffered, state, size))
            if self._progress is not None:
                self._progress(number, len(state.sizes))
        state.graphs.settle()


def _passes(chunks: Sequence[CodecChunk], max_frames: int) -> Iterator[Sequence[CodecChunk]]:
    """Part chunks, as few times as their order allows."""
    part: list[CodecChunk] = []
    num_frames = 0
    for chunk in chunks:
        if num_frames + chunk.num_frames > max_frames:
            yield part
            part, num_frames = [], 0
        part.append(chunk)
        num_frames += chunk.num_frames
    if part:
        yield part
