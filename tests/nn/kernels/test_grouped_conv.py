"""Convolutions of groups of channels, against PyTorch lines."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from tests.kernels import why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.families.cosyvoice3.dit_fused import FusedPosition
from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamState
from antiphon.nn.kernels import grouped_conv

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
GROUPS, TAPS = 2, 5


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def conv(number: int, width: int) -> StreamConv:
    weight = random(GROUPS * width, width, TAPS, seed=2 * number) / (width * TAPS) ** 0.5
    bias = random(GROUPS * width, seed=2 * number + 1)
    return StreamConv(f"{number}", weight, bias, groups=GROUPS)


@pytest.mark.parametrize("most_few", [0, 10**6])
def test_positions_are_those_of_pytorch_lines(
    most_few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces, the second of which has rows that begin with places that are none."""
    monkeypatch.setattr(grouped_conv, "_MANY_PROGRAMS", most_few)
    convs = [conv(1, 16), conv(2, 16)]
    fused = FusedPosition.of(convs)
    assert fused is not None
    states, mine, theirs = random(3, 90, 32, seed=9) * 3, StreamState(), StreamState()
    for start, end in ((0, 40), (40, 90)):
        piece = states[:, start:end]
        is_frame = torch.ones(3, end - start, 1, dtype=torch.bool, device=DEVICE)
        if start:
            is_frame[1, :7] = False
        columns = piece
        for each in convs:
            columns = torch.where(is_frame, columns, 0.0).transpose(1, 2)
            columns = F.mish(each(columns, theirs)).transpose(1, 2)
        found = fused(3, piece, mine, is_frame if start else None)
        torch.testing.assert_close(found, piece + columns, atol=1e-2, rtol=4e-3)
        assert not torch.equal(found, piece)
    assert {each.dtype for each in mine.values()} == {torch.float16}


def test_narrow_groups_are_left_to_pytorch_lines() -> None:
    assert FusedPosition.of([conv(1, 8)]) is None
