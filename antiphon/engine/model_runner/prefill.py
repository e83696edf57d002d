"""Packed prefill: positions of any slots, laid end to end and computed in one pass.

A span may begin anywhere, since keys and values of what comes before it are in the cache. So a pass
takes as many positions as there are, up to a limit, of any slots, and graphs differ in sizes only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.model_runner.ar_model import ARModel, PromptSpan, RequestT
from antiphon.engine.model_runner.kv_cache import BLOCK_POSITIONS, KVCaches
from antiphon.nn.attention import TILE_POSITIONS, PrefillAttention, Tokens, cut_tiles
from antiphon.nn.graphs import Graphs, buckets, round_up
from antiphon.nn.host_device import upload

_MIN_TOKENS = 16
_MAX_TOKENS = 1024

_Piece = tuple[int, int, int]
"""Slot, first position, number of positions."""


@dataclass(frozen=True, slots=True)
class PrefillShape:
    """All that the host decides in a pass over prompts: a graph's key."""

    num_tokens: int


class Prefiller(Generic[RequestT]):
    """Fills the caches of a model with prompts."""

    def __init__(self, model: ARModel[RequestT], caches: KVCaches, graphs: Graphs) -> None:
        """Allocate the buffers of the largest pass; the last slot of ``caches`` is for padding."""
        self._model = model
        self._caches = caches
        self._graphs = graphs
        self._padding_slot = len(caches.table) - 1
        self._sizes = buckets(_MAX_TOKENS, smallest=_MIN_TOKENS)
        self._device = device = caches.table.device
        if graphs.is_enabled:
            self._states = model.like.new_zeros(_MAX_TOKENS, model.width)
            num_numbers = 2 * _MAX_TOKENS + 4 * self._max_tiles(_MAX_TOKENS)
            self._numbers = torch.zeros(num_numbers, dtype=torch.int64, device=device)

    @property
    def shapes(self) -> tuple[PrefillShape, ...]:
        """What graphs are captured for, largest first."""
        return tuple(PrefillShape(size) for size in reversed(self._sizes))

    def capture(self, shape: PrefillShape) -> None:
        """Capture a graph, touching the slot for padding alone."""
        numbers = self._laid_out([], shape.num_tokens)
        with self._graphs.on_stream():
            self._numbers[: len(numbers)].copy_(upload(numbers, self._device))
        self._graphs.capture(shape, partial(self._compute_buffered, shape.num_tokens))

    def prefill(self, spans: Sequence[PromptSpan[RequestT]], *, by_block: bool = False) -> None:
        """Compute keys and values of prompts, or of parts of them.

        Args:
            spans: which positions.
            by_block: block by block, so that a position's values do not depend by rounding on how
                its prompt is split, as long as spans begin and end where blocks do.
        """
        states = self._model.embed_prompts(spans)
        for first, pieces in _blocks(spans) if by_block else _passes(spans):
            num_tokens = sum(count for _, _, count in pieces)
            part = states[first : first + num_tokens]
            if self._graphs.is_enabled:
                self._replay(part, pieces)
            else:
                places = upload(_places(pieces), self._device)
                tiles = upload(cut_tiles(pieces), self._device)
                self._compute(part, Tokens(places[0], places[1], tiles))

    def _replay(self, states: Tensor, pieces: Sequence[_Piece]) -> None:
        num_tokens = len(states)
        shape = PrefillShape(round_up(num_tokens, self._sizes))
        if shape not in self._graphs:
            self.capture(shape)
        numbers = self._laid_out(pieces, shape.num_tokens)
        self._numbers[: len(numbers)].copy_(upload(numbers, self._device))
        self._states[:num_tokens].copy_(states)
        self._states[num_tokens : shape.num_tokens].zero_()
        self._graphs.run(shape, partial(self._compute_buffered, shape.num_tokens))

    def _max_tiles(self, num_tokens: int) -> int:
        """Return into how many tiles so many tokens of all slots, padded, can be cut at most."""
        return num_tokens // TILE_POSITIONS + min(num_tokens, self._padding_slot) + 1

    def _laid_out(self, pieces: Sequence[_Piece], num_tokens: int) -> NDArray[np.int64]:
        """Return slots, positions and tiles of a pass padded to ``num_tokens``, end to end."""
        num_missing = num_tokens - sum(count for _, _, count in pieces)
        size = min(TILE_POSITIONS, self._caches.table.shape[1] * BLOCK_POSITIONS)
        padding = [
            (self._padding_slot, 0, min(size, num_missing - done))
            for done in range(0, num_missing, size)
        ]
        pieces = [*pieces, *padding]
        tiles = np.zeros((self._max_tiles(num_tokens), 4), np.int64)
        cut = cut_tiles(pieces)
        tiles[: len(cut)] = cut
        return np.concatenate((_places(pieces).ravel(), tiles.ravel()))

    def _compute_buffered(self, num_tokens: int) -> Tensor:
        slots, positions, tiles = torch.split(
            self._numbers[: 2 * num_tokens + 4 * self._max_tiles(num_tokens)],
            [num_tokens, num_tokens, 4 * self._max_tiles(num_tokens)],
        )
        return self._compute(self._states[:num_tokens], Tokens(slots, positions, tiles.view(-1, 4)))

    def _compute(self, states: Tensor, tokens: Tokens) -> Tensor:
        attends = [PrefillAttention(stack, tokens) for stack in self._caches.stacks]
        slots, positions = tokens.slots[None], tokens.positions[None]
        return self._model.forward(states[None], slots, positions, attends)


def _passes(spans: Sequence[PromptSpan[Any]]) -> Iterator[tuple[int, list[_Piece]]]:
    """Yield first token and pieces of each pass."""
    first, pieces, room = 0, list[_Piece](), _MAX_TOKENS
    for each in spans:
        start, end = each.start, each.end
        while start < end:
            count = min(room, end - start)
            pieces.append((each.slot, start, count))
            start, room = start + count, room - count
            if not room:
                yield first, pieces
                first, pieces, room = first + _MAX_TOKENS, [], _MAX_TOKENS
    if pieces:
        yield first, pieces


def _blocks(spans: Sequence[PromptSpan[Any]]) -> Iterator[tuple[int, list[_Piece]]]:
    """Yield the same of passes over a block of one slot each.

    Matrix products add in an order that depends on their shape: so all passes have the same.
    """
    first = 0
    for each in spans:
        start, end = each.start, each.end
        while start < end:
            count = min(BLOCK_POSITIONS - start % BLOCK_POSITIONS, end - start)
            yield first, [(each.slot, start, count)]
            first, start = first + count, start + count


def _places(pieces: Sequence[_Piece]) -> NDArray[np.int64]:
    """Return slot and position of every token, ``[2, num_tokens]``."""
    slots = [np.full(count, slot, np.int64) for slot, _, count in pieces]
    positions = [np.arange(start, start + count) for _, start, count in pieces]
    return np.stack((np.concatenate(slots), np.concatenate(positions)))
