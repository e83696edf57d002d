"""The step between two passes of a flow against its PyTorch lines."""

import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.kernels.flow_step import FlowRows, FlowTables, embed_patch, take_step

pytestmark = pytest.mark.gpu

NUM_ROWS, PATCH_SIZE, NUM_FEATURES, WIDTH, NUM_POSITIONS, NUM_PASSES = 3, 4, 8, 48, 11, 5
TIME_POSITION = 2


def tables() -> FlowTables:
    lengths = random(4, NUM_PASSES, seed=1).abs()
    lengths[2, 3:] = 0.0
    weight = random(WIDTH, NUM_FEATURES, seed=3)
    return FlowTables(random(4, NUM_PASSES, WIDTH, seed=2), lengths, weight, random(WIDTH, seed=4))


def rows() -> FlowRows:
    schedules = torch.tensor([1, 2, 3], device=DEVICE)
    states = random(2 * NUM_ROWS, NUM_POSITIONS, WIDTH, seed=5)
    return FlowRows(states, TIME_POSITION, schedules, torch.tensor([2.0, 0.0, 3.0], device=DEVICE))


def expected_states(before: Tensor, patch: Tensor, flow: FlowRows, number: int) -> Tensor:
    """Return the states that pass ``number`` reads."""
    known, states = tables(), before.clone()
    states[:, TIME_POSITION] = known.times[flow.schedules, number].repeat(2, 1)
    embedded = patch @ known.weight.T + known.bias
    states[:, -PATCH_SIZE:] = embedded.repeat(2, 1, 1)
    return states


def test_a_patch_is_embedded_beside_its_time() -> None:
    flow, patch = rows(), random(NUM_ROWS, PATCH_SIZE, NUM_FEATURES)
    wanted = expected_states(flow.states, patch, flow, 0)
    embed_patch(patch, flow, tables())
    torch.testing.assert_close(flow.states, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("number", [0, 3, NUM_PASSES - 1])
def test_a_step_is_guided_and_what_has_ended_stays(number: int) -> None:
    flow, patch = rows(), random(NUM_ROWS, PATCH_SIZE, NUM_FEATURES)
    velocities = random(2 * NUM_ROWS, PATCH_SIZE, NUM_FEATURES, seed=6)
    before = flow.states.clone()
    stepped = take_step(patch, velocities, flow, tables(), number)
    asked, unasked = velocities.chunk(2)
    alike = (asked * unasked).sum((1, 2)) / (unasked.square().sum((1, 2)) + 1e-8)
    unasked = unasked * alike[:, None, None]
    velocity = unasked + flow.guidance[:, None, None] * (asked - unasked)
    length = tables().lengths[flow.schedules, number]
    wanted = patch - length[:, None, None] * velocity
    torch.testing.assert_close(stepped, wanted, atol=1e-5, rtol=1e-5)
    if number >= 3:
        assert torch.equal(stepped[1], patch[1]), "a schedule that has ended moves"
    if number + 1 < NUM_PASSES:
        before = expected_states(before, wanted, flow, number + 1)
    torch.testing.assert_close(flow.states, before, atol=1e-5, rtol=1e-5)
