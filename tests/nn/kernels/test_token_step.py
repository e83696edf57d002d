"""The end of a step of tokens against the PyTorch lines that it stands for."""

import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.kernels.token_step import TokenSlots, end_step

pytestmark = pytest.mark.gpu

NUM_SLOTS, NUM_KEPT, FRAME_SIZE, VOCAB_SIZE = 5, 4, 3, 10
FRAME, STOP, FAULT = 7, 8, 9


def integers(*numbers: int) -> Tensor:
    return torch.tensor(numbers, device=DEVICE)


def begun() -> TokenSlots:
    sizes: dict[str, tuple[int, ...]] = {
        "next_ids": (NUM_SLOTS,),
        "positions": (NUM_SLOTS,),
        "frames": (NUM_SLOTS,),
    }
    sizes |= {"frame_store": (NUM_SLOTS, NUM_KEPT, FRAME_SIZE)}
    return TokenSlots(**{name: torch.full(size, -5, device=DEVICE) for name, size in sizes.items()})


@pytest.mark.parametrize("is_replay", [False, True])
def test_slots_hold_what_a_step_leaves_behind(is_replay: bool) -> None:
    state = begun()
    slots, positions, frames = integers(3, 0, 4, 1), integers(40, 2, 0, 9), integers(6, 0, 0, 3)
    codes = torch.arange(4 * (FRAME_SIZE + 1), device=DEVICE).view(4, -1) % VOCAB_SIZE
    tokens, scores = codes[:, 0].clone(), torch.zeros(4, FRAME_SIZE, device=DEVICE)
    scores[:, 0] = torch.tensor([1.0, torch.nan, 0.0, -torch.inf])
    is_end = torch.arange(VOCAB_SIZE, device=DEVICE) == tokens[2]
    end_step(
        slots, (positions, frames), (codes, scores), is_end, state, (FRAME, STOP, FAULT),
        is_replay=is_replay,
    )  # fmt: skip
    assert codes[:, -1].tolist() == [FRAME, FAULT, STOP, FAULT]
    assert state.next_ids[slots].tolist() == tokens.tolist()
    assert state.positions.tolist() == [3, 10, -5, 41, 0], "padding is not moved on"
    assert state.frames.tolist() == [1, 4, -5, 7, 0]
    expected = begun().frame_store
    if not is_replay:
        expected[slots, frames % NUM_KEPT] = codes[:, :-1]
    assert torch.equal(state.frame_store, expected)
