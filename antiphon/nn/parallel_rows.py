"""Parallel encoding of recordings, each in a row, and on streams, of its own.

The narrow layers of one recording do not fill a GPU, so several recordings run side by side, and
the passes of one recording too. A single recording does not compute empty rows, as in a batch of
`PaddedBatches`. All recordings of about one length are encoded in the same shape, so that the batch
does not change the result. Launches must be cheap, as those of CUDA graphs are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from antiphon.contracts.prompt import EncodingBatch
from antiphon.contracts.types import Samples
from antiphon.nn.padded_batches import BATCH_S, PaddedBatches, PaddedPass

_LENGTHS_S = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24)
_MAX_ROWS = 4


class ParallelRows:
    """Passes over recordings, padded to a few lengths; for one thread.

    Each row has buffers of its own: the more rows, the shorter their recordings. All rows together
    have twice the activations of a `PaddedBatches`.
    """

    def __init__(
        self,
        passes: Mapping[str, PaddedPass],
        device: torch.device,
        *,
        sample_rate_hz: int,
        samples_per_frame: int,
        pads: bool | None = None,
    ) -> None:
        """Allocate inputs, and capture every pass in each shape of each row on a GPU.

        Args:
            samples_per_frame: unit of lengths.
            pads: whether recordings are padded; default: on a GPU. Otherwise every recording is
                encoded as it is.
        """
        # A pass without preparation is one launch, and starts before the others.
        self._order = sorted(passes, key=lambda name: passes[name].prepare is not None)
        self._rows = [
            {
                name: PaddedBatches(
                    {name: passes[name]},
                    device,
                    sample_rate_hz=sample_rate_hz,
                    samples_per_frame=samples_per_frame,
                    pads=pads,
                    lengths_s=[each for each in _LENGTHS_S if number * each <= BATCH_S],
                    max_rows=1,
                )
                for name in self._order
            }
            for number in range(1, _MAX_ROWS + 1)
        ]

    def num_rows(self, num_samples: int) -> int:
        """Return the number of recordings that are encoded at once with one of this length."""
        return max(1, sum(self._length_of(row, num_samples) is not None for row in self._rows))

    def batch_of(self, num_samples: int) -> EncodingBatch:
        """Return the batch for a recording: that of its number of rows."""
        num_rows = self.num_rows(num_samples)
        return EncodingBatch(num_rows, num_rows)

    def encode(
        self, names: Sequence[str], recordings: Sequence[Samples], key: int | None = None
    ) -> list[dict[str, NDArray[Any]]]:
        """Run passes over at most `num_rows` recordings; see `PaddedBatches.encode`."""
        rows = self._rows[: len(recordings)]
        lengths = [
            self._length_of(row, len(each)) for row, each in zip(rows, recordings, strict=True)
        ]
        if None in lengths:
            first = self._rows[0]
            return [
                {name: first[name].encode((name,), [each], None)[0][name] for name in names}
                for each in recordings
            ]
        running = {
            (number, name): rows[number][name].begin((name,), [recordings[number]], length)
            for name in self._order
            if name in names
            for number, length in enumerate(lengths)
            if length is not None
        }
        return [
            {name: row[name].finish(running[number, name], [len(each)])[0][name] for name in names}
            for number, (row, each) in enumerate(zip(rows, recordings, strict=True))
        ]

    def _length_of(self, row: Mapping[str, PaddedBatches], num_samples: int) -> int | None:
        return row[self._order[0]].length_of(num_samples)
