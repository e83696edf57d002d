"""Random writes into tensors of all types, and what these must hold afterwards."""

import numpy as np
import torch
from torch import Tensor

from antiphon.nn.device_writes import PackedUpload, RowWriter

NUM_ROWS, WIDTH = 7, 1031
TYPES = (torch.bool, torch.int32, torch.int64, torch.float32)


class ManyWrites:
    def __init__(
        self, device: torch.device, seed: int, writer: RowWriter | None = None, num_writes: int = 40
    ) -> None:
        self._device = device
        self._writer = writer
        self._num_writes = num_writes
        self._random = np.random.default_rng(seed)
        self._targets = [torch.zeros(NUM_ROWS, WIDTH, dtype=type) for type in TYPES]
        self._targets += [torch.zeros(NUM_ROWS, dtype=torch.int64)]
        self._targets += [torch.zeros(NUM_ROWS, 5, 3, dtype=torch.bfloat16)]
        self._targets = [each.to(device) for each in self._targets]
        self._expected = [each.cpu().clone().view(NUM_ROWS, -1) for each in self._targets]

    def check(self) -> None:
        """Write, and see that every number is what was written there last."""
        uploads = PackedUpload(self._device, self._writer)
        for _ in range(self._num_writes):
            number = int(self._random.integers(len(self._targets)))
            target, expected = self._targets[number], self._expected[number]
            rows = self._random.permutation(NUM_ROWS)[: self._random.integers(NUM_ROWS + 1)]
            if target.dtype == torch.bfloat16 or self._random.random() < 0.3:
                source = self._source(expected)
                uploads.copy(target, rows, source)
                num_values = len(source) if len(source) > 1 else expected.shape[1]
                expected[rows, :num_values] = source.cpu()
            else:
                num_values = int(self._random.integers(1, expected.shape[1] + 1))
                values = self._random.integers(-9, 9, (len(rows), num_values)) / 3
                uploads.write(target, rows, values)
                expected[rows, :num_values] = torch.from_numpy(values).to(target.dtype)
        assert not any(target.any() for target in self._targets), "before it is sent"
        uploads.send()
        for target, expected in zip(self._targets, self._expected, strict=True):
            assert torch.equal(target.cpu().view_as(expected), expected)

    def _source(self, like: Tensor) -> Tensor:
        """Return a row on the device, or one number for whole rows."""
        num_values = int(self._random.choice([1, like.shape[1], (like.shape[1] + 1) // 2]))
        values = torch.from_numpy(self._random.integers(1, 100, num_values))
        return values.to(like.dtype).to(self._device)
