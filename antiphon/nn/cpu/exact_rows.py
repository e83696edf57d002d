"""Rows that a CPU computes together, each of them to the bit as if it were alone."""

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

MAX_EXACT_ROWS = 8
_SHARED_FROM = 32768  # numbers, from which on PyTorch shares an operation among threads
_BLOCK = 2**19  # weights, 2 MiB in float32


def joined_rows(function: Callable[..., Tensor], rows: Iterable[tuple[Tensor, ...]]) -> Tensor:
    """Return a function of each row by itself: rounding depends on how threads share several."""
    results = [function(*row) for row in rows]
    return results[0] if len(results) == 1 else torch.cat(results)


def by_row(function: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """Return a function of each number of few rows, ``[num_rows, ...]``.

    The last numbers of a thread's share may be computed by another function than the others. Which
    they are must not depend on the number of rows.
    """
    if states.numel() <= _SHARED_FROM or not 1 < len(states) <= MAX_EXACT_ROWS:
        return function(states)
    return joined_rows(function, zip(torch.split(states, 1), strict=True))


def linear_by_row(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``states @ weight.T + bias``; of few rows, each is computed by itself.

    They share the reading of weights: a block of them stays in the cache for all rows.
    """
    if len(states) > MAX_EXACT_ROWS:
        return F.linear(states, weight, bias)
    rows = torch.split(states, 1)
    parts = [torch.split(weight, max(_BLOCK // weight.shape[1], 1))]
    parts += [] if bias is None else [torch.split(bias, len(parts[0][0]))]
    blocks = zip(*parts, strict=True)
    joined = [torch.cat([F.linear(row, *block) for row in rows]) for block in blocks]
    return torch.cat(joined, dim=-1)
