"""Requests are computed in groups of equal keys, and results come in their own order."""

from collections.abc import Sequence

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from antiphon.diffusion.flow_denoiser import FlowState, in_groups


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_results_come_in_the_order_of_the_states(keys: list[int]) -> None:
    states = [
        FlowState(prompt=None, latents=torch.full((1, 2), float(number)), scheduler=key)  # type: ignore[arg-type]
        for number, key in enumerate(keys)
    ]
    computed: list[list[int]] = []

    def compute(group: Sequence[FlowState]) -> Tensor:
        computed.append([state.scheduler for state in group])
        return torch.cat([state.latents for state in group]) + 1

    made = in_groups(states, lambda state: state.scheduler, compute)
    torch.testing.assert_close(made[:, 0], torch.arange(len(keys)) + 1.0)
    assert all(len({*group}) == 1 for group in computed)
    assert len(computed) == len({*keys}), "one pass for each key"
