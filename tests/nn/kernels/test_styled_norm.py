"""The kernel of norm and activation, against PyTorch lines."""

import pytest
import torch
from torch import nn

from tests.kernels import DEVICE, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.families.kokoro.padding import PaddedRows
from antiphon.families.kokoro.styled_layers import StyledInstanceNorm
from antiphon.nn import kernels
from antiphon.nn.kernels import styled_norm as module

pytestmark = pytest.mark.gpu


@torch.inference_mode()
@pytest.mark.parametrize("is_snake", [False, True])
@pytest.mark.parametrize("columns", [(37, 64), (1, 16), (17, 50)])
def test_norm_and_activation(
    columns: tuple[int, int], is_snake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_BLOCK", 16)
    norm = StyledInstanceNorm(8, 5).to(DEVICE)
    for seed, parameter in enumerate(norm.parameters()):
        assert isinstance(parameter, nn.Parameter)
        parameter.copy_(random(*parameter.shape, seed=seed))
    alpha = random(1, 5, 1, seed=6).abs() + 0.3 if is_snake else None
    rows = PaddedRows.of(torch.tensor(columns, device=DEVICE), 64)
    x, style = random(2, 64, 5, seed=7).mT * 3 + 20, random(2, 8, seed=8)
    monkeypatch.setattr(kernels, "run_on", lambda tensor: False)
    wanted = norm(x, style, rows, alpha)
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    found = norm(x, style, rows, alpha)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-5)
    assert not found.mT[~rows.is_own[:, 0]].any()
