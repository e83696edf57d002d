"""A step ends alike for every model: frames are kept, slots move on, rows say how they ended."""

import pytest
import torch
from torch import Tensor

from antiphon.engine.model_runner.ar_model import FAULT, FRAME, STOP, ARModel, Frames, SlotState
from antiphon.engine.plan import FRAME_STORE_FRAMES

NUM_SLOTS, WIDTH, FRAME_SIZE, MAX_POSITIONS = 3, 4, 2, 8


class Counting(ARModel[None]):
    """Reads its slot's number next."""

    kv_shapes = ()
    open = start = embed_prompts = sampling_shape = forward = sample = commit = None  # type: ignore[assignment]

    def next_states(self, slots: Tensor) -> Tensor:
        return slots[:, None].expand(-1, WIDTH).float()


@pytest.fixture
def model() -> Counting:
    made = Counting(
        torch.zeros(1, WIDTH),
        width=WIDTH,
        num_slots=NUM_SLOTS,
        frame_size=FRAME_SIZE,
        max_positions=MAX_POSITIONS,
    )
    made.slots.positions[:] = torch.tensor([5, MAX_POSITIONS, 0, 0])
    made.slots.frames[:] = torch.tensor([FRAME_STORE_FRAMES + 1, 2, 0, 0])
    return made


def test_inputs_are_within_the_model_and_flat_ones_are_rows(model: Counting) -> None:
    inputs = model.embed(torch.tensor([1, 0]))
    assert inputs.states.shape == (2, 1, WIDTH)
    assert model.flat(inputs).tolist() == [[1.0] * WIDTH, [0.0] * WIDTH]
    assert inputs.positions.tolist() == [MAX_POSITIONS - 1, 5]
    assert inputs.frames.tolist() == [2, FRAME_STORE_FRAMES + 1]


@pytest.mark.parametrize("is_replay", [False, True])
def test_a_step_keeps_frames_moves_slots_and_tells_how_rows_ended(
    model: Counting, is_replay: bool
) -> None:
    inputs = model.embed(torch.tensor([0, 2, 3]))  # the last one is for padding
    frames = Frames.empty(3, model.slots)
    frames.codes[:, :-1] = torch.tensor([[10, 11], [20, 21], [30, 31]])
    is_end, is_finite = torch.tensor([True, True, False]), torch.tensor([True, False, True])
    model.finish(frames, inputs, is_replay=is_replay, is_end=is_end, is_finite=is_finite)
    assert frames.codes[:, -1].tolist() == [STOP, FAULT, FRAME]
    kept = [model.slots.frame_store[0, 1].tolist(), model.slots.frame_store[2, 0].tolist()]
    assert kept == ([[0, 0], [0, 0]] if is_replay else [[10, 11], [20, 21]])
    assert model.slots.positions.tolist() == [6, MAX_POSITIONS, 1, 0]
    assert model.slots.frames.tolist() == [FRAME_STORE_FRAMES + 2, 2, 1, 0]


def test_the_latest_codes_are_those_of_the_latest_frames() -> None:
    slots = SlotState.zeros(3, 2, torch.device("cpu"))
    num_made = torch.tensor([FRAME_STORE_FRAMES + 5, 2])
    for slot, count in enumerate(num_made.tolist()):
        for number in range(count):
            slots.frame_store[slot, number % FRAME_STORE_FRAMES] = 1000 * slot + number
    recent = slots.recent(torch.tensor([0, 1]), num_made, 4)
    newest = FRAME_STORE_FRAMES + 4
    assert recent.tolist() == [
        [newest, newest - 1, newest - 2, newest - 3],
        [1001, 1000, -1, -1],
    ]
    assert slots.recent(torch.tensor([1]), num_made[1:], 4, first=1).tolist() == [
        [1001, -1, -1, -1]
    ]
