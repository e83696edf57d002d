"""Convolutions by parts of float16 against those of float64."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from tests.kernels import why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.kernels import split_conv as module
from antiphon.nn.kernels.split_conv import SplitWeight, is_splittable, split_conv

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


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


def test_outputs_need_not_fill_large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY_NUMBERS", 0)
    columns, weight = random(1, 32, 130), random(96, 32, 1, seed=1) / 6
    wanted = F.conv1d(columns.double(), weight.double()).float()  # no GPU rounds factors of these
    torch.testing.assert_close(split_conv(columns, SplitWeight.of(weight, 1)), wanted)


def test_narrow_layers_are_not_split() -> None:
    assert is_splittable(torch.empty(64, 32, 3))
    assert not is_splittable(torch.empty(64, 18, 3))
    assert not is_splittable(torch.empty(8, 64, 3))
