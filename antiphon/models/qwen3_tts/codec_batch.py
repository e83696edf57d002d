"""The codec's decoder as a batched runner drives it: arrays in, samples out, on any device.

On a GPU a call is one graph: it takes the rows of its streams out of the state, decodes, and puts
them back. Rows are padded with a row that is nobody's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.graphs import Graphs, buckets, round_up
from antiphon.engine.transfer import Download, upload
from antiphon.engine.weights import Progress
from antiphon.models.qwen3_tts.codec import CodecDecoder
from antiphon.models.qwen3_tts.codec_state import DecoderState
from antiphon.models.qwen3_tts.config import CodecConfig
from antiphon.types import Samples

_GRAPH_FRAMES = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class BatchState:
    """The streams of one batch, and the buffers that graphs read.

    Attributes:
        streams: one row each, and a last one for padding.
        index: rows of a call, int64 ``[num_slots]``.
        codes: of a call, int64 ``[num_slots, num_quantizers, n]``, by number of frames.
    """

    streams: DecoderState
    graphs: Graphs
    index: Tensor
    codes: dict[int, Tensor]


class CodecBatch:
    """An `antiphon.codec.protocol.StreamingDecoder`; a frame is its codes, ``[num_quantizers]``."""

    def __init__(
        self,
        decoder: CodecDecoder,
        config: CodecConfig,
        *,
        uses_graphs: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Wrap a decoder.

        Args:
            decoder: on any device.
            config: of the codec.
            uses_graphs: on a GPU.
            progress: told of every graph that has been captured.
        """
        self._decoder = decoder
        self._config = config
        self._uses_graphs = uses_graphs
        self._progress = progress

    @property
    def sample_rate_hz(self) -> int:
        return self._config.sample_rate_hz

    @property
    def samples_per_frame(self) -> int:
        return self._config.samples_per_frame

    @torch.inference_mode()
    def open(self, num_slots: int) -> BatchState:
        """Return fresh streams, their graphs captured."""
        streams = self._decoder.open(num_slots + 1)
        device = streams.memory.device
        codes = {
            num_frames: torch.zeros(
                num_slots, self._config.num_quantizers, num_frames, dtype=torch.int64, device=device
            )
            for num_frames in _GRAPH_FRAMES
        }
        index = torch.full((num_slots,), num_slots, device=device)
        graphs = Graphs(device, is_enabled=self._uses_graphs)
        state = BatchState(streams, graphs, index, codes)
        if graphs.is_enabled:
            torch.cuda.synchronize(device)
            self._warm_up(state, num_slots)
        return state

    @torch.inference_mode()
    def reset(self, state: BatchState, slot: int) -> None:
        with state.graphs.on_stream():
            self._decoder.reset(state.streams, slot)

    @torch.inference_mode()
    def decode(
        self, frames: NDArray[np.integer[Any]], state: BatchState, active: NDArray[np.bool_]
    ) -> Samples:
        """Decode ``[num_slots, n, num_quantizers]``; inactive rows cost next to nothing.

        On a CPU rows are decoded one by one: kernels there add in an order that depends on the
        batch, and a stream would differ in its last bit by who its neighbours are.
        """
        num_slots, num_frames, _ = frames.shape
        samples = np.zeros((num_slots, num_frames * self.samples_per_frame), np.float32)
        slots = np.flatnonzero(active)
        is_exact = state.index.device.type == "cpu"
        for rows in np.split(slots, len(slots)) if is_exact else [slots]:
            with state.graphs.on_stream():
                audio = Download(self._decode(frames[rows].transpose(0, 2, 1), rows, state))
            samples[rows] = audio.wait().numpy()
        return samples

    def close(self) -> None:
        """Nothing to free that does not go with it."""

    def _warm_up(self, state: BatchState, num_slots: int) -> None:
        keys = [
            (num_rows, num_frames)
            for num_rows in buckets(num_slots)
            for num_frames in _GRAPH_FRAMES
        ]
        for number, key in enumerate(keys, start=1):
            with _tensor_cores():
                state.graphs.capture(key, partial(self._decode_buffered, state, *key))
            if self._progress is not None:
                self._progress(number, len(keys))

    def _decode(self, codes: NDArray[Any], slots: NDArray[np.intp], state: BatchState) -> Tensor:
        """Decode ``[k, num_quantizers, n]`` of ``slots``; the result holds until the next call."""
        device = state.index.device
        num_rows = round_up(len(slots), buckets(len(state.index)))
        key = (num_rows, codes.shape[2])
        if key not in state.graphs:
            rows = upload(slots, device)
            return self._decode_rows(state, rows, upload(np.ascontiguousarray(codes), device))
        padding = num_rows - len(slots)
        nobody = state.streams.num_slots - 1
        state.index[:num_rows].copy_(
            upload(np.pad(slots, (0, padding), constant_values=nobody), device)
        )
        state.codes[key[1]][: len(slots)].copy_(upload(np.ascontiguousarray(codes), device))
        return state.graphs.run(key, partial(self._decode_buffered, state, *key))[: len(slots)]

    def _decode_buffered(self, state: BatchState, num_rows: int, num_frames: int) -> Tensor:
        return self._decode_rows(state, state.index[:num_rows], state.codes[num_frames][:num_rows])

    def _decode_rows(self, state: BatchState, rows: Tensor, codes: Tensor) -> Tensor:
        part = state.streams.gather(rows)
        everyone = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        audio = self._decoder.decode(codes, part, everyone)
        state.streams.scatter(rows, part)
        return audio


@contextmanager
def _tensor_cores() -> Iterator[None]:
    """Let float32 products on a GPU round their factors to TF32, which nobody hears."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = True
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before
