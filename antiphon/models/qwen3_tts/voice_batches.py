"""Recordings encoded several at a time, padded to a few lengths, on a GPU in CUDA graphs.

On a GPU the order in which a kernel adds depends on the shape of a batch, and now and then an order
turns a code. So all recordings up to the same length are encoded in one shape, one recording alone
too: what is made of a recording does not depend on its company.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.models.qwen3_tts.encoder import CodecEncoder
from antiphon.models.qwen3_tts.recording import PARTS, Part
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.graphs import Graphs, round_up
from antiphon.nn.mel import HOP_SAMPLES, log_mel_rows, mel_filters
from antiphon.nn.precision import exact_float32
from antiphon.nn.row_lengths import RowLengths
from antiphon.types import Samples

LENGTHS_S = (2, 4, 6, 8, 12, 16, 24)
_BATCH_S = 24  # of audio in a batch, padding included: its activations take about 1 GB
_MAX_ROWS = 8


@dataclass(frozen=True, slots=True)
class _Shape:
    """The inputs of the batches of one length, which stay where they are.

    Attributes:
        samples: float32 ``[num_rows, num_samples]``; ``num_samples`` is whole frames.
        mels: log-mel spectrograms of them, float32 ``[num_rows, mel_dim, num_samples // hop]``.
        lengths: of the rows in samples, int64 ``[num_rows]``.
        host_samples: as ``samples``, where the device can copy from.
        host_lengths: as ``lengths``.
    """

    samples: Tensor
    mels: Tensor
    lengths: Tensor
    host_samples: Tensor
    host_lengths: Tensor


class VoiceBatches:
    """Speaker vectors and codes of several recordings in a pass, on a stream of its own."""

    def __init__(self, speaker: EcapaEncoder, codec: CodecEncoder, samples_per_frame: int) -> None:
        """Allocate inputs and capture the passes, if the encoders are on a GPU.

        Args:
            speaker: the encoder of speaker vectors; its recordings have at least its
                ``min_samples``.
            codec: the encoder of codes.
            samples_per_frame: of the codec.
        """
        self._speaker, self._codec = speaker, codec
        self._frame = samples_per_frame
        self._device = speaker.project.weight.device
        rate_hz, num_mels = speaker.config.sample_rate_hz, speaker.config.mel_dim
        self._lengths = tuple(
            -(-length_s * rate_hz // samples_per_frame) * samples_per_frame
            for length_s in LENGTHS_S
        )
        self._max_rows = {
            length: max(1, min(_BATCH_S // length_s, _MAX_ROWS))
            for length, length_s in zip(self._lengths, LENGTHS_S, strict=True)
        }
        self._filters = torch.from_numpy(mel_filters(num_mels, rate_hz)).to(self._device)
        self._graphs = Graphs(self._device)
        self._shapes = {length: self._shape(length) for length in self._lengths}
        if self._device.type == "cuda":
            self._capture()

    @property
    def max_samples(self) -> int:
        """The longest recording that a batch can hold."""
        return self._lengths[-1]

    def length_of(self, num_samples: int) -> int:
        """Return the length that a recording of up to `max_samples` is padded to."""
        return round_up(num_samples, self._lengths)

    def num_rows(self, length: int) -> int:
        """Return how many recordings of a length are encoded at once."""
        return self._max_rows[length]

    @torch.inference_mode()
    def encode(
        self, wanted: Sequence[Part], recordings: Sequence[Samples]
    ) -> list[dict[Part, NDArray[Any]]]:
        """Encode recordings that are padded to the same length, at most `num_rows`.

        Returns:
            Of each what is wanted, by name: the speaker vector, float32 ``[D]``, and the codes,
            int64 ``[num_frames, Q]``.
        """
        (length,) = {self.length_of(len(each)) for each in recordings}
        shape = self._shapes[length]
        with self._graphs.on_stream():
            self._upload(shape, recordings)
            if "speaker" in wanted:
                with exact_float32():
                    self._hear(shape)
            running = {part: self._run(part, length) for part in wanted}
            made = {part: each.cpu().numpy() for part, each in running.items()}
        return [
            {part: self._row(made[part][row], part, len(recording)) for part in wanted}
            for row, recording in enumerate(recordings)
        ]

    def _run(self, part: Part, length: int) -> Tensor:
        if self._graphs.is_enabled:
            return self._graphs.run((part, length), self._pass(part, length))
        with exact_float32():
            return self._pass(part, length)()

    def _row(self, row: NDArray[Any], part: Part, num_samples: int) -> NDArray[Any]:
        """Return a copy of what is a recording's own."""
        return row.copy() if part == "speaker" else row[: -(-num_samples // self._frame)].copy()

    def _upload(self, shape: _Shape, recordings: Sequence[Samples]) -> None:
        """Fill the inputs; rows without a recording hear silence."""
        samples, lengths = shape.host_samples.numpy(), shape.host_lengths.numpy()
        samples[:], lengths[:] = 0.0, samples.shape[1]
        for row, recording in enumerate(recordings):
            samples[row, : len(recording)] = recording
            lengths[row] = len(recording)
        shape.samples.copy_(shape.host_samples, non_blocking=True)
        shape.lengths.copy_(shape.host_lengths, non_blocking=True)

    def _hear(self, shape: _Shape) -> None:
        """Compute the spectrograms: a few kernels, whose plans cuFFT keeps outside of graphs."""
        shape.mels.copy_(log_mel_rows(shape.samples, RowLengths(shape.lengths), self._filters))

    def _pass(self, part: Part, length: int) -> "partial[Tensor]":
        return partial(self._vectors if part == "speaker" else self._codes, self._shapes[length])

    def _vectors(self, shape: _Shape) -> Tensor:
        """Return the speaker vectors of a batch, ``[num_rows, D]``."""
        lengths = RowLengths(shape.lengths // HOP_SAMPLES)
        return self._speaker.pooled(shape.mels, lengths)[:, :, 0]

    def _codes(self, shape: _Shape) -> Tensor:
        """Return the codes of a batch, ``[num_rows, num_samples / samples_per_frame, Q]``."""
        return self._codec.encode_rows(shape.samples, shape.lengths)

    @torch.inference_mode()
    def _capture(self) -> None:
        """Capture all passes, the longest first: the shorter ones fit into its memory."""
        torch.cuda.synchronize(self._device)  # weights and inputs were made on another stream
        for length in reversed(self._lengths):
            noise = np.random.default_rng(0).normal(0, 0.1, length).astype(np.float32)
            with exact_float32(), self._graphs.on_stream():
                self._upload(self._shapes[length], [noise])
                self._hear(self._shapes[length])
                for part in PARTS:
                    self._graphs.capture((part, length), self._pass(part, length))
        self._graphs.settle()

    def _shape(self, length: int) -> _Shape:
        num_rows, num_mels = self._max_rows[length], self._speaker.config.mel_dim
        pinned = self._device.type == "cuda"
        samples = torch.zeros(num_rows, length, pin_memory=pinned)
        lengths = torch.full((num_rows,), length, dtype=torch.int64, pin_memory=pinned)
        mels = torch.zeros(num_rows, num_mels, length // HOP_SAMPLES, device=self._device)
        return _Shape(
            samples.to(self._device, copy=True),
            mels,
            lengths.to(self._device, copy=True),
            samples,
            lengths,
        )
