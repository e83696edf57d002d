"""Attention to rings of keys and values, pass by pass, is that of the whole stream."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from tests.kernels import DEVICE, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.kernels.delayed_attention import DelayedRows, attend_delayed

pytestmark = pytest.mark.gpu

HEADS, SIZE, POSITIONS, LEFT = 2, 16, 16, 75
WIDTH = HEADS * SIZE


def rings(right: int) -> tuple[Tensor, Tensor]:
    """Return rings in which each number that was not written would be seen."""
    num_kept, num_waiting = LEFT + right + POSITIONS, right + POSITIONS if right else 0
    ring = torch.full((1, num_kept, 2, HEADS, SIZE), torch.nan, dtype=torch.float16, device=DEVICE)
    return ring, torch.full((1, num_waiting, 2, WIDTH), torch.nan, device=DEVICE)


@pytest.mark.parametrize("right", [0, 3])
def test_passes_are_parts_of_the_whole(right: int) -> None:
    """From positions before the stream until its ring has turned."""
    count = 9 * POSITIONS
    joined, states = random(count, 3 * WIDTH), random(count, WIDTH, seed=1)
    unturned = torch.cat((torch.ones(count, SIZE // 2), torch.zeros(count, SIZE // 2)), 1)
    made, kept = list[Tensor](), rings(right)
    for first in range(-POSITIONS, count, POSITIONS):
        part = slice(max(first, 0), max(first, 0) + POSITIONS)
        place = torch.tensor([[0, first, count]], device=DEVICE)
        rows = DelayedRows(place, unturned[part].to(DEVICE), POSITIONS, LEFT, right)
        attended, _ = attend_delayed(joined[part].clone(), states[part].clone(), kept, rows)
        assert right or attended.isfinite().all()
        made.append(attended)
    made_in_order = torch.cat(made)[POSITIONS + right :]
    queries, keys, values = joined.view(count, 3, HEADS, SIZE).transpose(0, 2).unbind(1)
    keys, values = keys.half().float(), values.half().float()
    distance = torch.arange(count, device=DEVICE) - torch.arange(count, device=DEVICE)[:, None]
    mask = (distance >= -LEFT) & (distance <= right)
    whole = F.scaled_dot_product_attention(queries, keys, values, mask)
    wanted = whole.transpose(0, 1).flatten(1)[: len(made_in_order)]
    torch.testing.assert_close(made_in_order, wanted, atol=1e-3, rtol=1e-3)
