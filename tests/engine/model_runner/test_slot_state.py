"""What slots said last is found in their stores of frames."""

import torch

from antiphon.engine.model_runner.ar_model import SlotState
from antiphon.engine.plan import FRAME_STORE_FRAMES


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
