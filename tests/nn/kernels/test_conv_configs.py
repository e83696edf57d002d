"""Configs of convolutions change their speed, and no bit of what they give."""

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.nn.kernels.causal_conv import _MIN_WIDTH, ConvWeights, _fitted
from antiphon.nn.kernels.kernel_configs import config_of

NUM_COLUMNS = (1, 64, 65, 128, 256, 257, 512, 513, 1024, 2560, 2561, 4096, 5000)


@pytest.mark.parametrize("num_taps", [1, 2, 7])
@pytest.mark.parametrize("num_in", [4, 16, 24, 32, 48, 64, 96, 128, 192, 256, 288, 384, 512])
def test_sums_of_one_step_are_so_for_any_number_of_columns(num_in: int, num_taps: int) -> None:
    """What is added to a sum of one step may be where it begins: it then rounds otherwise."""
    for num_out in (16, 64, 288, 1024, 4096):
        conv = ConvWeights(torch.empty(num_taps * num_in, num_out), None, num_taps)
        num_steps = set()
        for num_columns in NUM_COLUMNS:
            fitted = _fitted(config_of(conv, num_columns), conv, torch.empty(1, num_in))
            num_steps.add(num_taps * -(-num_in // fitted.inputs))
            assert fitted.inputs >= _MIN_WIDTH
        assert num_steps == {1} or 1 not in num_steps
