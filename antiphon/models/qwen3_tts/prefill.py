"""Reads prompts into the cache: positions of any slots, laid end to end and read in one pass.

A piece may begin anywhere, since what stands before it is in the cache; so a pass takes as many
positions as there are up to a limit, whosever they are, and needs a graph for numbers of them only.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.models.qwen3_tts.kv_budget import BLOCK_POSITIONS
from antiphon.models.qwen3_tts.prompt_layout import FRAME, SPEAKER
from antiphon.models.qwen3_tts.step_inputs import Reading, ReadingShape
from antiphon.models.qwen3_tts.talker import Talker
from antiphon.nn.attention import (
    TILE_POSITIONS,
    PagedCache,
    PrefillAttention,
    Tokens,
    cut_tiles,
)
from antiphon.nn.graphs import Graphs, buckets, round_up
from antiphon.nn.host_device import upload

_MIN_TOKENS = 16
_MAX_TOKENS = 1024

_Piece = tuple[int, int, int]
"""Slot, first position, number of positions."""


class Prefiller:
    """Fills a talker's cache with prompts."""

    def __init__(self, talker: Talker, cache: PagedCache, graphs: Graphs) -> None:
        """Make buffers for the largest pass.

        Args:
            talker: that reads.
            cache: of all slots and one more, the last, for padding.
            graphs: shared with whoever else captures.
        """
        self._talker = talker
        self._cache = cache
        self._graphs = graphs
        self._padding_slot = len(cache.table) - 1
        self._sizes = buckets(_MAX_TOKENS, smallest=_MIN_TOKENS)
        self._device = device = cache.table.device
        if graphs.is_enabled:
            table = talker.frame_table.rows
            self._states = table.new_zeros(_MAX_TOKENS, table.shape[1])
            num_numbers = 2 * _MAX_TOKENS + 4 * self._max_tiles(_MAX_TOKENS)
            self._numbers = torch.zeros(num_numbers, dtype=torch.int64, device=device)

    @property
    def shapes(self) -> tuple[ReadingShape, ...]:
        """What graphs are captured for, largest first."""
        return tuple(ReadingShape(size) for size in reversed(self._sizes))

    def capture(self, shape: ReadingShape) -> None:
        """Capture a graph, touching the slot for padding alone."""
        numbers = self._laid_out([], shape.num_tokens)
        with self._graphs.on_stream():
            self._numbers[: len(numbers)].copy_(upload(numbers, self._device))
        self._graphs.capture(shape, partial(self._read_buffered, shape.num_tokens))

    def read(self, readings: Sequence[Reading], *, by_block: bool = False) -> None:
        """Compute keys and values of positions, in order; see `LanguageModel.read`."""
        states = self._embedded(readings)
        for first, pieces in _blocks(readings) if by_block else _passes(readings):
            num_tokens = sum(count for _, _, count in pieces)
            part = states[first : first + num_tokens]
            if self._graphs.is_enabled:
                self._replay(part, pieces)
            else:
                places = upload(_places(pieces), self._device)
                tiles = upload(cut_tiles(pieces), self._device)
                self._read(part, Tokens(places[0], places[1], tiles))

    def _replay(self, states: Tensor, pieces: Sequence[_Piece]) -> None:
        num_tokens = len(states)
        shape = ReadingShape(round_up(num_tokens, self._sizes))
        if shape not in self._graphs:
            self.capture(shape)
        numbers = self._laid_out(pieces, shape.num_tokens)
        self._numbers[: len(numbers)].copy_(upload(numbers, self._device))
        self._states[:num_tokens].copy_(states)
        self._states[num_tokens : shape.num_tokens].zero_()
        self._graphs.run(shape, partial(self._read_buffered, shape.num_tokens))

    def _max_tiles(self, num_tokens: int) -> int:
        """Return into how many tiles so many tokens of all slots, padded, can be cut at most."""
        return num_tokens // TILE_POSITIONS + min(num_tokens, self._padding_slot) + 1

    def _laid_out(self, pieces: Sequence[_Piece], num_tokens: int) -> NDArray[np.int64]:
        """Return slots, positions and tiles of a pass padded to ``num_tokens``, end to end."""
        num_missing = num_tokens - sum(count for _, _, count in pieces)
        size = min(TILE_POSITIONS, self._cache.table.shape[1] * self._cache.block_positions)
        padding = [
            (self._padding_slot, 0, min(size, num_missing - done))
            for done in range(0, num_missing, size)
        ]
        pieces = [*pieces, *padding]
        tiles = np.zeros((self._max_tiles(num_tokens), 4), np.int64)
        cut = cut_tiles(pieces)
        tiles[: len(cut)] = cut
        return np.concatenate((_places(pieces).ravel(), tiles.ravel()))

    def _read_buffered(self, num_tokens: int) -> Tensor:
        slots, positions, tiles = torch.split(
            self._numbers[: 2 * num_tokens + 4 * self._max_tiles(num_tokens)],
            [num_tokens, num_tokens, 4 * self._max_tiles(num_tokens)],
        )
        return self._read(self._states[:num_tokens], Tokens(slots, positions, tiles.view(-1, 4)))

    def _read(self, states: Tensor, tokens: Tokens) -> Tensor:
        rotation = self._talker.transformer.rope.at(tokens.positions[None])
        return self._talker(states[None], rotation, PrefillAttention(self._cache, tokens))

    def _embedded(self, readings: Sequence[Reading]) -> Tensor:
        """Embed all columns, ``[num_tokens, hidden_size]``."""
        ids = [np.stack((each.columns.text, each.columns.codec)) for each in readings]
        columns = np.concatenate(ids, axis=1)
        text, codec = upload(columns, self._device)
        table = self._talker.frame_table
        states = _embed_known(text, self._talker.text_table) + _embed_known(codec, table.rows)
        frames = np.concatenate([each.columns.frames for each in readings])
        if len(frames):
            places = upload(np.flatnonzero(columns[1] == FRAME), self._device)
            states[places] += table.frames(upload(frames, self._device))
        speakers = [
            np.tile(each.speaker, (count, 1))
            for each in readings
            if each.speaker is not None and (count := np.sum(each.columns.codec == SPEAKER))
        ]
        if speakers:
            places = upload(np.flatnonzero(columns[1] == SPEAKER), self._device)
            states[places] += upload(np.concatenate(speakers), self._device).to(states.dtype)
        return states


def _passes(readings: Sequence[Reading]) -> Iterator[tuple[int, list[_Piece]]]:
    """Yield first token and pieces of each pass."""
    first, pieces, room = 0, list[_Piece](), _MAX_TOKENS
    for each in readings:
        start, end = each.start, each.start + each.num_positions
        while start < end:
            count = min(room, end - start)
            pieces.append((each.slot, start, count))
            start, room = start + count, room - count
            if not room:
                yield first, pieces
                first, pieces, room = first + _MAX_TOKENS, [], _MAX_TOKENS
    if pieces:
        yield first, pieces


def _blocks(readings: Sequence[Reading]) -> Iterator[tuple[int, list[_Piece]]]:
    """Yield the same of passes over a block of one slot each.

    Libraries add in an order that depends on the shape of a product: so all have the same.
    """
    first = 0
    for each in readings:
        start, end = each.start, each.start + each.num_positions
        while start < end:
            count = min(BLOCK_POSITIONS - start % BLOCK_POSITIONS, end - start)
            yield first, [(each.slot, start, count)]
            first, start = first + count, start + count


def _places(pieces: Sequence[_Piece]) -> NDArray[np.int64]:
    """Return slot and position of every token, ``[2, num_tokens]``."""
    slots = [np.full(count, slot, np.int64) for slot, _, count in pieces]
    positions = [np.arange(start, start + count) for _, start, count in pieces]
    return np.stack((np.concatenate(slots), np.concatenate(positions)))


def _embed_known(ids: Tensor, table: Tensor) -> Tensor:
    """Look ids up; negative ones, which stand for no id, give zeros."""
    rows = F.embedding(ids.clamp(min=0), table)
    return torch.where((ids >= 0)[..., None], rows, 0.0)
