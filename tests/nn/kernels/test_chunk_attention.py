"""Attention chunk by chunk, and norms that are told the time, against PyTorch lines."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from tests.kernels import DEVICE, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.kernels import chunk_attention
from antiphon.nn.kernels.chunk_attention import ChunkRows, attend_chunks
from antiphon.nn.kernels.modulated_norm import Branch, add_modulated_norm

pytestmark = pytest.mark.gpu

HEADS, HEAD_DIM, PASSES = 2, 16, 2
CHUNK, RING, SLOTS, CAPACITY = 10, 30, 3, 64


def turned(heads: Tensor, angles: Tensor) -> Tensor:
    """Turn the first head, ``[num_frames, num_heads, head_dim]``."""
    even, odd = heads[:, 0, ::2], heads[:, 0, 1::2]
    cos, sin = angles.cos(), angles.sin()
    first = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(1)
    return torch.cat((first[:, None], heads[:, 1:]), dim=1)


class Stream:
    """All frames of a stream, and what each of them sees, frame by frame."""

    def __init__(self, slot: int, num_pinned: int, phase: int, seed: int) -> None:
        self.slot, self.num_pinned, self.phase = slot, num_pinned, phase
        self.joined = random(PASSES, 120, 3, HEADS, HEAD_DIM, seed=seed)
        self.angles = random(120, HEAD_DIM // 2, seed=seed + 1)

    def end(self, frame: int, limit: int) -> int:
        return min(limit, self.phase + (max(frame - self.phase, 0) // CHUNK + 1) * CHUNK)

    def wanted(self, number: int, frame: int, newest: int, limit: int) -> Tensor:
        """Return what a frame of a pass up to ``newest`` attends to."""
        seen = [
            other
            for other in range(min(self.end(frame, limit), newest + 1))
            if other < self.num_pinned or other > newest - RING
        ]
        parts = self.joined[number].double()
        angles = self.angles.double()
        query = turned(parts[[frame], 0], angles[[frame]])
        keys, values = turned(parts[seen, 1], angles[seen]), parts[seen, 2]
        query, keys, values = (each.transpose(0, 1)[None] for each in (query, keys, values))
        return F.scaled_dot_product_attention(query, keys, values)[0].transpose(0, 1).flatten()


def attend(
    streams: list[Stream | None], starts: list[int], num_frames: int, limit: int, context: Tensor
) -> Tensor:
    """Make a pass over frames of streams, ``None`` for a row of padding."""
    numbers, joined, angles = [], [], []
    for stream, start in zip(streams, starts, strict=True):
        given = stream or Stream(SLOTS, 0, 0, 99)
        frames = [max(0, start + each) for each in range(num_frames)]
        numbers.append((given.slot, start, given.num_pinned, given.phase, limit))
        joined.append(given.joined[:, frames])
        angles.append(given.angles[frames])
    told, turns = torch.tensor(numbers, device=DEVICE), torch.stack(angles)
    rows = ChunkRows(told, turns.cos().contiguous(), turns.sin().contiguous(), CHUNK, RING)
    packed = torch.stack(joined).view(-1, 3 * HEADS * HEAD_DIM)
    made = attend_chunks(packed.contiguous(), context, rows)
    return made.view(len(streams), PASSES, num_frames, -1)


@pytest.mark.parametrize("most_few", [0, 1000])
def test_each_frame_sees_its_chunk_and_those_before(
    most_few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two streams and padding: first passes, one of them with places before its first frame."""
    monkeypatch.setattr(chunk_attention, "_MANY_PROGRAMS", most_few)
    monkeypatch.setattr(chunk_attention, "_KEYS", 16)
    context = torch.full((SLOTS, PASSES, CAPACITY, 2, HEADS, HEAD_DIM), torch.nan, device=DEVICE)
    streams = [Stream(2, 7, 3, 1), None, Stream(0, 17, 3, 2)]
    starts = [-7, 0, 3]  # of the second one, frames before have been made
    alone = attend([streams[2]], [0], 3, 3, context)
    _check(alone[0], streams[2], 0, 3, 3)
    made = attend(streams, starts, 20, 100, context)
    for row, start in ((0, -7), (2, 3)):
        _check(made[row], streams[row], start, 20, 100)
    assert made.isfinite().all()
    starts = [13, 0, 23]
    for limit in (100, 100, 46):
        made = attend(streams, starts, CHUNK, limit, context)
        for row in (0, 2):
            _check(made[row], streams[row], starts[row], CHUNK, limit)
        starts = [each + CHUNK for each in starts]
    assert context[1].isnan().all()


def _check(made: Tensor, stream: Stream | None, start: int, size: int, limit: int) -> None:
    assert stream is not None
    for frame in range(max(0, start), start + size):
        for number in range(PASSES):
            wanted = stream.wanted(number, frame, start + size - 1, limit)
            found = made[number, frame - start].double()
            torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_norm_is_scaled_and_shifted(dtype: torch.dtype) -> None:
    states, values, gate = random(5, 48), random(5, 48, seed=1), random(48, seed=2)
    scale, shift = random(48, seed=3), random(48, seed=4)
    atol, rtol = (1e-5, 1e-5) if dtype == torch.float32 else (4e-3, 1e-3)
    sums = states + gate * values.to(dtype).float()
    for given, branch in ((states, None), (sums, Branch(values.to(dtype), gate))):
        wanted = F.layer_norm(given, (48,), eps=1e-6) * (1 + scale) + shift
        found = add_modulated_norm(states, branch, scale, shift, 1e-6, dtype)
        assert found.dtype == dtype
        torch.testing.assert_close(found.float(), wanted, atol=atol, rtol=rtol)
        torch.testing.assert_close(states, given, atol=1e-6, rtol=1e-6)
