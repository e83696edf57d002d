"""Packed prefill: positions of any slots, laid end to end, after the rows of a step.

A span may begin anywhere, since keys and values of earlier positions are in the cache. So a pass
takes positions of any slots up to a limit, and graphs differ in sizes only.

Rows that make a frame go through the layers with the prompts, also those whose prompt ends in the
same pass: a step reads the weights once, for any number of new requests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.model_runner.ar_model import (
    NO_ID,
    ARModel,
    IdPrompts,
    PromptSpan,
    RequestT,
    Spans,
    SupportsHiddenStates,
)
from antiphon.engine.model_runner.kv_cache import KVCaches
from antiphon.engine.runner import BLOCK_POSITIONS, token_buckets
from antiphon.nn.attention import TILE_POSITIONS, Tokens, cut_tiles
from antiphon.nn.attention_backends import mixed_attention, prefill_attention
from antiphon.nn.device_writes import PackedUpload, upload
from antiphon.nn.graphs import Graphs, round_up

_Piece = tuple[int, int, int]  # Slot, first position, number of positions
_Inputs = NDArray[np.int64] | Tensor
"""Inputs of a pass at positions of prompts: ids that it embeds, ``[num_tracks, num_positions]``; or
embedded ones, ``[num_positions, width]``."""


@dataclass(frozen=True, slots=True)
class PassShape:
    """All that the host decides in a pass: a graph's key.

    Attributes:
        num_tokens: rows and positions of prompts together.
        num_visible: positions of the fullest slot of a row after the pass, rounded up.
    """

    num_tokens: int
    num_visible: int


class Prefiller(Generic[RequestT]):
    """Fills the caches of a model with prompts, and runs rows through its layers beside them."""

    def __init__(
        self, model: ARModel[RequestT], caches: KVCaches, graphs: Graphs, visible: Sequence[int]
    ) -> None:
        """Allocate the buffers of the largest pass; the last slot of ``caches`` is for padding."""
        self._model = model
        self._exporter = model if isinstance(model, SupportsHiddenStates) else None
        self._of_ids = model if isinstance(model, IdPrompts) else None
        self._num_id_tracks = self._of_ids.num_id_tracks if self._of_ids else 0
        self._caches = caches
        self._graphs = graphs
        self._visible_buckets = visible
        self._padding_slot = len(caches.table) - 1
        self._sizes = token_buckets(self._padding_slot)
        self._device = device = caches.table.device
        if graphs.is_enabled:
            most = self._sizes[-1]
            if self._of_ids is None:
                self._states = model.like.new_zeros(most, model.width)
            self._numbers = torch.zeros(self._num_numbers(most), dtype=torch.int64, device=device)

    def usual_shapes(self, visible: Sequence[int]) -> tuple[PassShape, ...]:
        """Return the shapes of the graphs captured first, by ``visible`` buckets, largest first."""
        return tuple(PassShape(*sizes) for sizes in product(reversed(self._sizes), visible))

    def capture(self, shape: PassShape) -> None:
        """Capture a graph, touching the slot for padding alone."""
        numbers = self._laid_out((), (), shape.num_tokens, self._most_rows(shape.num_tokens))
        with self._graphs.on_stream():
            self._numbers[: len(numbers)].copy_(upload(numbers, self._device))
        self._graphs.capture(shape, partial(self._compute_buffered, shape))

    def prefill(
        self, spans: Spans[RequestT], uploads: PackedUpload, *, by_block: bool = False
    ) -> None:
        """Compute keys and values of prompts, or of parts of them.

        Args:
            by_block: whether to compute block by block: then values do not depend by rounding on
                the split of a prompt, as long as spans begin and end where blocks do.
        """
        if by_block:
            for span in _blocks(spans):
                piece = (span.slot, span.start, span.end - span.start)
                self._run(self._inputs([span]), [piece], uploads)
                self._keep([span], [piece], 0)
            return
        inputs = self._inputs(spans)
        for first, pieces in _passes(spans, self._sizes[-1]):
            self._run(_part(inputs, first, _num_tokens(pieces)), pieces, uploads)
            self._keep(spans, pieces, 0)

    def step(
        self,
        spans: Spans[RequestT],
        slots: Sequence[int],
        num_visible: int,
        uploads: PackedUpload,
    ) -> Tensor:
        """Prefill, and run a row of each of ``slots`` through the layers; in one pass, if it fits.

        Args:
            spans: positions to compute, of at least one prompt; they complete those of ``slots``.
            num_visible: positions of the fullest slot after the pass, or more.

        Returns:
            Hidden states of the rows, ``[len(slots), width]``, until the next pass.
        """
        inputs = self._inputs(spans)
        *before, last = _passes(spans, self._sizes[-1] - len(slots))
        for first, pieces in before:
            self._run(_part(inputs, first, _num_tokens(pieces)), pieces, uploads)
            self._keep(spans, pieces, 0)
        first, pieces = last
        inputs = _part(inputs, first, _num_tokens(pieces))
        hidden = self._run(inputs, pieces, uploads, slots, num_visible)[: len(slots)]
        self._keep(spans, pieces, len(slots))
        return hidden

    def _keep(self, spans: Spans[RequestT], pieces: Sequence[_Piece], first: int) -> None:
        """Let the model keep the hidden states that it exports of prompts in the pass just run."""
        if self._exporter is not None:
            requests = {span.slot: span.request for span in spans}
            self._exporter.keep_states(
                [PromptSpan(slot, requests[slot], at, at + size) for slot, at, size in pieces],
                first,
            )

    def _inputs(self, spans: Spans[RequestT]) -> _Inputs:
        """Return the inputs of spans, embedded unless the pass embeds them."""
        if self._of_ids is not None:
            return self._of_ids.prompt_ids(spans)
        return self._model.embed_prompts(spans)

    def _run(
        self,
        inputs: _Inputs,
        pieces: Sequence[_Piece],
        uploads: PackedUpload,
        slots: Sequence[int] = (),
        num_visible: int = 1,
    ) -> Tensor:
        """Run one pass; return hidden states of the rows, and of some more tokens by a graph."""
        num_rows, num_tokens = len(slots), len(slots) + _num_tokens(pieces)
        if not self._graphs.is_enabled:
            uploads.send()
            laid_out = self._laid_out(pieces, slots, num_tokens, num_rows)
            index, tokens = self._layout(upload(laid_out, self._device), num_tokens, num_rows)
            states = self._embedded(inputs)
            padded = states.new_zeros(num_tokens, states.shape[1])
            padded[num_rows:] = states
            return self._compute(padded, index, tokens, num_visible)
        size = round_up(num_tokens, self._sizes)
        shape = PassShape(size, round_up(num_visible, self._visible_buckets))
        if shape not in self._graphs:
            self.capture(shape)
        ids = inputs if isinstance(inputs, np.ndarray) else None
        numbers = self._laid_out(pieces, slots, size, self._most_rows(size), ids)
        uploads.write_first(self._numbers, numbers)
        uploads.send()
        if isinstance(inputs, Tensor):
            self._states[num_rows : num_rows + len(inputs)].copy_(inputs)
        return self._graphs.run(shape, partial(self._compute_buffered, shape))

    def _embedded(self, inputs: _Inputs) -> Tensor:
        if isinstance(inputs, Tensor):
            return inputs
        assert self._of_ids is not None, "there are no states"
        return self._of_ids.embed_ids(upload(inputs, self._device))

    def _most_rows(self, num_tokens: int) -> int:
        """Return how many of the tokens can be rows."""
        return min(num_tokens, self._padding_slot)

    def _max_tiles(self, num_tokens: int) -> int:
        """Return the largest number of tiles of this number of tokens, padded by slot."""
        return num_tokens // TILE_POSITIONS + min(num_tokens, self._padding_slot) + 1

    def _num_numbers(self, num_tokens: int) -> int:
        sizes = self._sizes_of_numbers(num_tokens, self._most_rows(num_tokens))
        return sum(sizes) + self._num_id_tracks * num_tokens

    def _sizes_of_numbers(self, num_tokens: int, most_rows: int) -> list[int]:
        return [most_rows, num_tokens, num_tokens, 4 * self._max_tiles(num_tokens)]

    def _laid_out(
        self,
        pieces: Sequence[_Piece],
        slots: Sequence[int],
        num_tokens: int,
        most_rows: int,
        ids: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Return the numbers of `_layout` padded to ``num_tokens``, then the ids, end to end."""
        num_rows = len(slots)
        num_missing = num_tokens - num_rows - _num_tokens(pieces)
        size = min(TILE_POSITIONS, self._caches.table.shape[1] * BLOCK_POSITIONS)
        padding = [
            (self._padding_slot, 0, min(size, num_missing - done))
            for done in range(0, num_missing, size)
        ]
        pieces = [*pieces, *padding]
        index = np.full(most_rows, self._padding_slot, np.int64)
        index[:num_rows] = slots
        rows = np.stack((index[:num_rows], np.zeros(num_rows, np.int64)))
        tiles = np.zeros((self._max_tiles(num_tokens), 4), np.int64)
        cut = cut_tiles(pieces, num_rows)
        tiles[: len(cut)] = cut
        places = np.concatenate((rows, _places(pieces)), axis=1)
        padded = np.full((self._num_id_tracks, num_tokens), NO_ID, np.int64)
        if ids is not None:
            padded[:, num_rows : num_rows + ids.shape[1]] = ids
        return np.concatenate((index, places.ravel(), tiles.ravel(), padded.ravel()))

    def _layout(self, numbers: Tensor, num_tokens: int, most_rows: int) -> tuple[Tensor, Tokens]:
        """Return the layout of a pass, on the device.

        Returns:
            Slots of the rows, int64 ``[most_rows]``, the slot for padding where prompts begin; and
            all tokens, without the positions of rows.
        """
        sizes = self._sizes_of_numbers(num_tokens, most_rows)
        index, slots, positions, tiles = torch.split(numbers[: sum(sizes)], sizes)
        return index, Tokens(slots, positions, tiles.view(-1, 4))

    def _compute_buffered(self, shape: PassShape) -> Tensor:
        size = shape.num_tokens
        numbers = self._numbers[: self._num_numbers(size)]
        layout = self._layout(numbers, size, self._most_rows(size))
        if self._of_ids is None:
            return self._compute(self._states[:size], *layout, shape.num_visible)
        ids = numbers[len(numbers) - self._num_id_tracks * size :].view(-1, size)
        return self._compute(self._of_ids.embed_ids(ids), *layout, shape.num_visible)

    def _compute(self, states: Tensor, index: Tensor, tokens: Tokens, num_visible: int) -> Tensor:
        """Return hidden states of as many tokens as can be rows; ``states`` lacks those of rows."""
        stacks = self._caches.stacks
        if len(index):
            inputs = self._model.embed(index)
            is_row = index != self._padding_slot
            states = _with_front(is_row[:, None], self._model.flat(inputs), states)
            positions = _with_front(is_row, inputs.positions, tokens.positions)
            tokens = replace(tokens, positions=positions)
            places = (index, inputs.positions)
            attends = [mixed_attention(stack, tokens, places, num_visible) for stack in stacks]
        else:
            attends = [prefill_attention(stack, tokens) for stack in stacks]
        slots, positions = tokens.slots[None], tokens.positions[None]
        return self._model.forward(states[None], slots, positions, attends)[0, : len(index)]


def _with_front(is_new: Tensor, new: Tensor, whole: Tensor) -> Tensor:
    """Put the first entries of ``new``, as many as there are, in front of those of ``whole``."""
    num_new = len(new)
    return torch.cat((torch.where(is_new, new, whole[:num_new]), whole[num_new:]))


def _part(inputs: _Inputs, first: int, num_positions: int) -> _Inputs:
    end = first + num_positions
    return inputs[first:end] if isinstance(inputs, Tensor) else inputs[:, first:end]


def _num_tokens(pieces: Sequence[_Piece]) -> int:
    return sum(count for _, _, count in pieces)


def _passes(spans: Sequence[PromptSpan[Any]], most: int) -> Iterator[tuple[int, list[_Piece]]]:
    """Yield first token and pieces of each pass over at most so many tokens."""
    first, pieces, room = 0, list[_Piece](), most
    for span in spans:
        start, end = span.start, span.end
        while start < end:
            count = min(room, end - start)
            pieces.append((span.slot, start, count))
            start, room = start + count, room - count
            if not room:
                yield first, pieces
                first, pieces, room = first + most, [], most
    if pieces:
        yield first, pieces


def _blocks(spans: Spans[RequestT]) -> Iterator[PromptSpan[RequestT]]:
    """Yield spans within a block, of one slot each.

    Matrix products add in an order that depends on their shape: so a block is embedded and computed
    in the same shape whatever is computed before and after it.
    """
    for span in spans:
        start = span.start
        while start < span.end:
            end = min(start + BLOCK_POSITIONS - start % BLOCK_POSITIONS, span.end)
            yield replace(span, start=start, end=end)
            start = end


def _places(pieces: Sequence[_Piece]) -> NDArray[np.int64]:
    """Return slot and position of every token, ``[2, num_tokens]``."""
    if not pieces:
        return np.zeros((2, 0), np.int64)
    slots = [np.full(count, slot, np.int64) for slot, _, count in pieces]
    positions = [np.arange(start, start + count) for _, start, count in pieces]
    return np.stack((np.concatenate(slots), np.concatenate(positions)))
