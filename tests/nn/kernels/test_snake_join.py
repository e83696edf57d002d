"""What stands between two convolutions of streams, against PyTorch lines."""

import pytest
import torch

from tests.kernels import DEVICE, packed, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn.kernels import snake_join as module
from antiphon.nn.kernels.snake_join import SnakeInput, snake_join
from antiphon.nn.layers import Snake

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("length", "num_before"), [(20, 6), (3, 10), (1, 0)])
@pytest.mark.parametrize("parts", ["columns", "bias", "branch", "all"])
def test_columns_are_activated_and_joined(
    length: int, num_before: int, parts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_BLOCK", 16)
    columns, bias = random(2, 3, length), random(3, seed=1)
    branch = random(2, 3, length, seed=2)
    given = SnakeInput(
        columns,
        branch if parts in {"branch", "all"} else None,
        bias if parts in {"bias", "all"} else None,
    )
    snake = Snake(random(3, seed=3).abs() * 4, random(3, seed=4))
    wanted = columns
    if given.bias is not None and given.branch is not None:
        wanted = columns + (branch + bias[:, None])
    elif given.branch is not None:
        wanted = columns + branch
    sums = columns if given.branch is None else wanted
    if given.bias is not None and given.branch is None:
        wanted = columns + bias[:, None]
    waves = torch.sin(wanted * snake.frequency[:, None]).square()
    wanted = wanted + waves * snake.amplitude[:, None]
    for before in (None, random(2, 3, num_before, seed=5)):
        kept = torch.zeros(2, 3, num_before, device=DEVICE) if before is None else before
        joined = torch.cat((kept, wanted), dim=2)
        found_sums, found, last = snake_join(given, before, num_before, snake)
        assert torch.equal(found_sums, sums)
        torch.testing.assert_close(found, joined, atol=2e-6, rtol=1e-5)
        assert torch.equal(last, found[:, :, length:])
        before = None if before is None else packed(before)
        found_sums, parts_found, last = snake_join(given, before, num_before, snake, packs=True)
        assert torch.equal(found_sums, sums)
        assert torch.equal(parts_found, packed(found))
        assert torch.equal(last, parts_found[:, :, length:])
