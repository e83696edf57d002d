"""Recordings encoded several at a time, padded to a few lengths, on a GPU in CUDA graphs.

On a GPU the order in which a kernel adds depends on the shape of a batch, and now and then an order
turns a code. So all recordings up to the same length are encoded in one shape, one recording alone
too: what is made of a recording does not depend on its company. A CPU gains nothing by this, and
recordings longer than a batch's are rare: both are encoded one by one, unpadded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import EncodingBatch
from antiphon.contracts.types import Samples
from antiphon.nn.graphs import Graphs, round_up
from antiphon.nn.precision import exact_float32

_LENGTHS_S = (2, 4, 6, 8, 12, 16, 24)
BATCH_S = 24  # of audio in a batch, padding included: its activations take about 1 GB
_MAX_ROWS = 8


@dataclass(frozen=True, slots=True)
class PaddedPass:
    """Something that is made of recordings, in float32.

    Attributes:
        encode: maps what was prepared, and the rows' lengths in samples, int64 ``[B]``, to
            ``[B, ...]``. A row depends on the first samples of its own recording only, as many as
            its length says.
        encode_one: maps one recording, float32 ``[t]``, to what ``encode`` makes of its row.
        prepare: maps samples, float32 ``[B, t]`` with zeros behind the rows' own, and the lengths
            to what ``encode`` gets; it is not captured. ``None``: that gets the samples.
        num_frames: maps a recording's number of samples to that of frames in its row; frames of
            padding are cut off. ``None``: rows are returned whole.
    """

    encode: Callable[[Tensor, Tensor], Tensor]
    encode_one: Callable[[Tensor], Tensor]
    prepare: Callable[[Tensor, Tensor], Tensor] | None = None
    num_frames: Callable[[int], int] | None = None


class RecordingBatches(Protocol):
    """Passes over recordings in batches."""

    def batch_of(self, num_samples: int) -> EncodingBatch:
        """Return the batches that a recording of a length fits; keys are `encode`'s ``key``."""
        ...

    def encode(
        self, names: Sequence[str], recordings: Sequence[Samples], key: Any
    ) -> list[dict[str, NDArray[Any]]]:
        """Run passes over recordings of one batch; return their outputs by name."""
        ...


@dataclass(frozen=True, slots=True)
class _Shape:
    """The inputs of the batches of one length, which stay where they are.

    Attributes:
        samples: float32 ``[num_rows, t]``, zeros behind the rows' own.
        lengths: of the rows, int64 ``[num_rows]``.
        host_samples: as ``samples``, where the device can copy from.
        host_lengths: as ``lengths``.
        prepared: what passes prepare, by their names.
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
        """Fill the inputs; rows without a recording have silence of full length."""
        samples, lengths = self.host_samples.numpy(), self.host_lengths.numpy()
        samples[:], lengths[:] = 0.0, samples.shape[1]
        for row, recording in enumerate(recordings):
            samples[row, : len(recording)] = recording
            lengths[row] = len(recording)
        self.samples.copy_(self.host_samples, non_blocking=True)
        self.lengths.copy_(self.host_lengths, non_blocking=True)


class PaddedBatches:
    """Passes over recordings of about one length, on a stream of their own; for one thread."""

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
        """Allocate inputs; on a GPU, run every pass once in each shape, or capture it.

        Args:
            passes: by name.
            device: of the passes.
            sample_rate_hz: of the recordings.
            samples_per_frame: lengths are multiples of it.
            captures: whether passes become CUDA graphs on a GPU.
            pads: whether there are batches; default: on a GPU. Otherwise every recording is encoded
                by itself.
            lengths_s: that recordings are padded to, ascending.
            max_rows: of a batch.
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
        """Return how many recordings of a length are encoded at once."""
        return 1 if length is None else len(self._shapes[length].samples)

    def batch_of(self, num_samples: int) -> EncodingBatch:
        """Return the batches that a recording fits: those of the length that it is padded to."""
        length = self.length_of(num_samples)
        return EncodingBatch(length, self.num_rows(length))

    @torch.inference_mode()
    def encode(
        self, names: Sequence[str], recordings: Sequence[Samples], key: int | None
    ) -> list[dict[str, NDArray[Any]]]:
        """Run passes over recordings.

        Args:
            names: of the passes.
            recordings: at most `num_rows` of a length, float32.
            key: the length that they are padded to, one of those of `length_of`.

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
        """Begin what `encode` does, without waiting for a GPU; `finish` comes before the next."""
        with self._graphs.on_stream():
            self._shapes[length].upload(recordings)
            return {name: self._run(name, length) for name in names}

    @torch.inference_mode()
    def finish(
        self, running: Mapping[str, Tensor], lengths: Sequence[int]
    ) -> list[dict[str, NDArray[Any]]]:
        """Wait for what `begin` returned, of recordings of these lengths; see `encode`."""
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
