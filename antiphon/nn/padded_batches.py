"""Batched encoding of recordings, padded to a few lengths, on a GPU in CUDA graphs.

On a GPU the order in which a kernel adds depends on the shape of a batch, and occasionally an order
changes a code. So all recordings up to the same length are encoded in one shape, a single recording
too: the result does not depend on the batch. On a CPU batches gain nothing, and recordings longer
than a batch's are rare: both are encoded one by one, unpadded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import EncodingBatch
from antiphon.contracts.types import Samples
from antiphon.nn.graphs import Graphs, round_up
from antiphon.nn.precision import exact_float32

_LENGTHS_S = (2, 4, 6, 8, 12, 16, 24)
BATCH_S = 24  # seconds of audio in a batch, padding included: its activations take about 1 GB
_MAX_ROWS = 8


@dataclass(frozen=True, slots=True)
class PaddedPass:
    """Computation over recordings, in float32.

    Attributes:
        encode: function of the prepared input, and the rows' lengths in samples, int64 ``[B]``, to
            ``[B, ...]``. A row depends only on the first samples of its own recording, up to its
            length.
        encode_one: function of one recording, float32 ``[t]``, to the row of ``encode``.
        prepare: function of samples, float32 ``[B, t]`` zero-padded, and the lengths to the input
            of ``encode``; not captured. ``None``: ``encode`` gets the samples.
        num_frames: function of a recording's number of samples to the number of frames in its row;
            frames of padding are cut off. ``None``: rows are returned whole.
    """

    encode: Callable[[Tensor, Tensor], Tensor]
    encode_one: Callable[[Tensor], Tensor]
    prepare: Callable[[Tensor, Tensor], Tensor] | None = None
    num_frames: Callable[[int], int] | None = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """Inputs of the batches of one length, at fixed addresses.

    Attributes:
        samples: float32 ``[num_rows, t]``, zero-padded.
        lengths: rows' lengths, int64 ``[num_rows]``.
        host_samples: host buffer of ``samples``, pinned for copies to the device.
        host_lengths: host buffer of ``lengths``.
    """

    samples: Tensor
    lengths: Tensor
    host_samples: Tensor
    host_lengths: Tensor
    prepared: dict[str, Tensor]

    @classmethod
    def of(cls, num_rows: int, length: int, device: torch.device) -> "_Shape":
        pinned = device.type == "cuda"
        samples = torch.zeros(num_rows, length, pin_memory=pinned)
        lengths = torch.full((num_rows,), length, dtype=torch.int64, pin_memory=pinned)
        inputs = samples.to(device, copy=True), lengths.to(device, copy=True)
        return cls(*inputs, samples, lengths, {})

    def upload(self, recordings: Sequence[Samples]) -> None:
        """Copy inputs to the device; rows without a recording get silence of full length."""
        samples, lengths = self.host_samples.numpy(), self.host_lengths.numpy()
        samples[:], lengths[:] = 0.0, samples.shape[1]
        for row, recording in enumerate(recordings):
            samples[row, : len(recording)] = recording
            lengths[row] = len(recording)
        self.samples.copy_(self.host_samples, non_blocking=True)
        self.lengths.copy_(self.host_lengths, non_blocking=True)


class PaddedBatches:
    """Passes over recordings of similar length, on a stream of their own; for one thread."""

    def __init__(
        self,
        passes: Mapping[str, PaddedPass],
        device: torch.device,
        *,
        sample_rate_hz: int,
        samples_per_frame: int,
        captures: bool = True,
        pads: bool | None = None,
        lengths_s: Sequence[int] = _LENGTHS_S,
        max_rows: int = _MAX_ROWS,
    ) -> None:
        """Allocate inputs; on a GPU, run or capture every pass once in each shape.

        Args:
            samples_per_frame: unit of lengths.
            captures: whether passes become CUDA graphs on a GPU.
            pads: whether to form batches; default: on a GPU. Otherwise every recording is encoded
                by itself.
            lengths_s: padded lengths in seconds, ascending.
            max_rows: most recordings in a batch.
        """
        self._passes, self._device = passes, device
        self._graphs = Graphs(device, is_enabled=captures)
        self._shapes: dict[int, _Shape] = {}
        has_batches = device.type == "cuda" if pads is None else pads
        for length_s in lengths_s if has_batches else ():
            length = -(-length_s * sample_rate_hz // samples_per_frame) * samples_per_frame
            num_rows = max(1, min(BATCH_S // length_s, max_rows))
            self._shapes[length] = _Shape.of(num_rows, length, device)
        if device.type == "cuda":
            self._warm_up()

    def length_of(self, num_samples: int) -> int | None:
        """Return the length that a recording is padded to; ``None``: it is encoded by itself."""
        if num_samples > max(self._shapes, default=0):
            return None
        return round_up(num_samples, tuple(self._shapes))

    def num_rows(self, length: int | None) -> int:
        """Return the number of recordings of a length that are encoded at once."""
        return 1 if length is None else len(self._shapes[length].samples)

    def batch_of(self, num_samples: int) -> EncodingBatch:
        """Return the batch for a recording: that of its padded length."""
        length = self.length_of(num_samples)
        return EncodingBatch(length, self.num_rows(length))

    @torch.inference_mode()
    def encode(
        self, names: Sequence[str], recordings: Sequence[Samples], key: int | None
    ) -> list[dict[str, NDArray[Any]]]:
        """Run passes over recordings.

        Args:
            recordings: float32 recordings, at most `num_rows` of a length.
            key: padded length, from `length_of`.

        Returns:
            Outputs of the passes for each recording, by name; see `PaddedPass.num_frames`.
        """
        if key is None:
            return [self._encode_one(names, each) for each in recordings]
        return self.finish(self.begin(names, recordings, key), list(map(len, recordings)))

    @torch.inference_mode()
    def begin(
        self, names: Sequence[str], recordings: Sequence[Samples], length: int
    ) -> dict[str, Tensor]:
        """Start `encode` without waiting for a GPU; `finish` must come before the next call."""
        with self._graphs.on_stream():
            self._shapes[length].upload(recordings)
            return {name: self._run(name, length) for name in names}

    @torch.inference_mode()
    def finish(
        self, running: Mapping[str, Tensor], lengths: Sequence[int]
    ) -> list[dict[str, NDArray[Any]]]:
        """Wait for the result of `begin` for recordings of these lengths; see `encode`."""
        with self._graphs.on_stream():
            made = {name: each.cpu().numpy() for name, each in running.items()}
        return [
            {name: self._row(name, rows[row], length) for name, rows in made.items()}
            for row, length in enumerate(lengths)
        ]

    def _row(self, name: str, row: NDArray[Any], length: int) -> NDArray[Any]:
        num_frames = self._passes[name].num_frames
        return (row if num_frames is None else row[: num_frames(length)]).copy()

    def _encode_one(self, names: Sequence[str], recording: Samples) -> dict[str, NDArray[Any]]:
        with exact_float32():
            samples = torch.tensor(recording, device=self._device)
            return {name: self._passes[name].encode_one(samples).cpu().numpy() for name in names}

    def _run(self, name: str, length: int) -> Tensor:
        self._prepare(name, self._shapes[length])
        function = partial(self._encode, name, self._shapes[length])
        if (name, length) in self._graphs:
            return self._graphs.run((name, length), function)
        with exact_float32():
            return function()

    def _prepare(self, name: str, shape: _Shape) -> None:
        if (prepare := self._passes[name].prepare) is None:
            return
        with exact_float32():
            prepared = prepare(shape.samples, shape.lengths)
        if name in shape.prepared:
            shape.prepared[name].copy_(prepared)
        else:
            shape.prepared[name] = prepared.clone()

    def _encode(self, name: str, shape: _Shape) -> Tensor:
        return self._passes[name].encode(shape.prepared.get(name, shape.samples), shape.lengths)

    @torch.inference_mode()
    def _warm_up(self) -> None:
        """Run or capture all passes, the longest first: the shorter ones fit into its memory."""
        torch.cuda.synchronize(self._device)  # weights and inputs were made on another stream
        for length, shape in sorted(self._shapes.items(), reverse=True):
            noise = np.random.default_rng(0).normal(0, 0.1, length).astype(np.float32)
            with exact_float32(), self._graphs.on_stream():
                shape.upload([noise])
                for name in self._passes:
                    self._prepare(name, shape)
                    if self._graphs.is_enabled:
                        function = partial(self._encode, name, shape)
                        self._graphs.capture((name, length), function)
                    else:
                        self._encode(name, shape)
        self._graphs.settle()
