"""Convolutions by parts of float16 against those of float64."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)

from tests.kernels import DEVICE, packed, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

import pytest

from antiphon.families.cosyvoice3.dit_fused import FusedPosition
from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamState
from antiphon.nn.kernels import grouped_conv
from antiphon.nn.kernels import split_conv as module
from antiphon.nn.kernels.split_conv import SplitWeight, is_splittable, split_conv
from tests.kernels import why_not_here

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("many", [0, 10**9])
@pytest.mark.parametrize(("num_taps", "dilation"), [(3, 1), (5, 3)])
def test_products_have_22_bits(
    num_taps: int, dilation: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MANY_NUMBERS", many)
    columns, weight = random(2, 64, 150), random(32, 64, num_taps, seed=1) / 20
    wanted = F.conv1d(columns.double(), weight.double(), dilation=dilation)
    found = split_conv(columns, SplitWeight.of(weight, dilation))
    assert found.shape == wanted.shape
    error = (found - wanted).square().mean() / wanted.square().mean()
    assert 10 * float(error.log10()) < -100
    alone = split_conv(columns[1:], SplitWeight.of(weight, dilation))
    assert torch.equal(alone, found[1:])
    assert torch.equal(split_conv(packed(columns), SplitWeight.of(weight, dilation)), found)


def test_outputs_need_not_fill_large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY_NUMBERS", 0)
    columns, weight = random(1, 32, 130), random(96, 32, 1, seed=1) / 6
    wanted = F.conv1d(columns.double(), weight.double()).float()  # no GPU rounds factors of these
    torch.testing.assert_close(split_conv(columns, SplitWeight.of(weight, 1)), wanted)


def test_narrow_layers_are_not_split() -> None:
    assert is_splittable(torch.empty(64, 32, 3))
    assert not is_splittable(torch.empty(64, 18, 3))
    assert not is_splittable(torch.empty(8, 64, 3))


GROUPS, TAPS = 2, 5


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
