"""Talker, predictor and the state of every slot on the device: one call makes one frame a slot.

A step reads and writes tensors only; nothing in it waits for the device or asks what a tensor
holds. What the host must know (slot numbers, lengths) comes in as numbers.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.models.qwen3_tts.config import MIN_NEW_TOKENS, Qwen3TTSConfig
from antiphon.models.qwen3_tts.input_ids import Codes
from antiphon.models.qwen3_tts.kv_budget import BLOCK_POSITIONS
from antiphon.models.qwen3_tts.predictor import Predictor
from antiphon.models.qwen3_tts.prefill import Prefiller
from antiphon.models.qwen3_tts.prompt_layout import Ids
from antiphon.models.qwen3_tts.slot_state import SlotState
from antiphon.models.qwen3_tts.step_inputs import Reading, ReadingShape, SlotStart, StepShape
from antiphon.models.qwen3_tts.talker import Talker
from antiphon.nn import kernels
from antiphon.nn.attention import DecodeAttention, FrameCache, PagedCache
from antiphon.nn.graphs import Graphs, buckets, round_up
from antiphon.nn.host_device import upload
from antiphon.nn.sampler import (
    SamplingTable,
    gumbel_noise,
    penalize_repetition,
    sample,
    seed_words,
)
from antiphon.nn.weights import Progress

if TYPE_CHECKING:  # it needs Triton
    from antiphon.nn.kernels.fused_linear import Scaled

FRAME, STOP, FAULT = 0, 1, 2
"""What became of a row in a step: a frame, the end of speech, or numbers that are none."""

_ROW_BUCKETS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
_MIN_VISIBLE = 256
_NUM_VISIBLE_STEP = 4  # from one bucket of visible positions to the next
_MAX_USUAL_VISIBLE = 1024  # longer requests are rare: their graphs are captured when they come


class LanguageModel:
    """Makes frames of codes for the requests in its slots.

    Attributes:
        num_slots: requests that fit.
        max_positions: of each, prompt and frames together.
        cache: keys and values of their positions.
        slots: all else that the device holds of them.
    """

    def __init__(
        self,
        config: Qwen3TTSConfig,
        talker: Talker,
        predictor: Predictor,
        *,
        num_slots: int,
        max_positions: int,
        num_blocks: int,
        uses_graphs: bool = True,
    ) -> None:
        self.num_slots = num_slots
        self.max_positions = max_positions
        self.talker = talker
        self.predictor = predictor
        self._tokens = config.tokens
        self._codec_tokens = config.talker.tokens
        self._device = device = talker.head.weight.device
        num_rows = num_slots + 1  # the last is for padding
        num_groups, vocab_size = config.talker.num_groups, config.talker.vocab_size
        self.cache: PagedCache = talker.new_cache(num_blocks, BLOCK_POSITIONS, num_rows)
        self._num_held_blocks = [0] * num_slots
        self._frame_cache: FrameCache = predictor.new_cache(num_slots)
        table = talker.frame_table.rows
        self.slots = SlotState.zeros(num_rows, max_positions, vocab_size, num_groups, table)
        self._talker_sampling = SamplingTable(num_rows, vocab_size, device)
        self._predictor_sampling = SamplingTable(num_rows, config.predictor.vocab_size, device)
        groups = torch.arange(num_groups, device=device)
        self._group_0, self._later_groups = groups[:1], groups[1:]

        uses_graphs = uses_graphs and kernels.run_on(table)
        self.graphs = Graphs(device, is_enabled=uses_graphs, priority=-1)
        self._row_buckets = _row_buckets(num_slots)
        self._visible_buckets = buckets(
            max_positions, smallest=_MIN_VISIBLE, factor=_NUM_VISIBLE_STEP
        )
        self._index = torch.full((num_slots,), num_slots, device=device)
        self._reader = Prefiller(talker, self.cache, self.graphs)

    def warm_up(self, progress: Progress | None = None) -> None:
        """Capture the graphs that ordinary requests need; does nothing without graphs."""
        if not self.graphs.is_enabled:
            return
        steps = [
            self._rounded(StepShape(num_rows, num_visible, 1, 1, uses_top_p=False))
            for num_visible in self._visible_buckets
            if num_visible <= max(_MAX_USUAL_VISIBLE, self._visible_buckets[0])
            for num_rows in reversed(self._row_buckets)
        ]
        shapes: list[StepShape | ReadingShape] = [*steps, *self._reader.shapes]
        for number, shape in enumerate(shapes, start=1):
            if isinstance(shape, StepShape):
                self._capture(shape)
            else:
                self._reader.capture(shape)
            if progress is not None:
                progress(number, len(shapes))
        self.graphs.settle()

    def start(self, starts: Sequence[SlotStart]) -> None:
        """Give slots to requests, whatever they held before; their tables begin empty."""
        state, device, num_groups = self.slots, self._device, self.slots.frame_store.shape[2]
        width = min(max(len(each.text) for each in starts), self.max_positions)
        numbers = np.zeros((len(starts), 6 + num_groups + width), np.int64)
        numbers[:, 6 + num_groups :] = self._tokens.tts_pad
        for row, each in zip(numbers, starts, strict=True):
            text = each.text[:width]  # what cannot fit is unheard
            row[:4] = each.slot, each.next_position, each.next_frame, len(each.lead)
            row[4:6] = seed_words(each.seed)
            if len(each.lead):
                row[6 : 6 + num_groups] = each.lead[-1]
            row[6 + num_groups : 6 + num_groups + len(text)] = text
            self._num_held_blocks[each.slot] = 0
        uploaded = upload(numbers, device)
        index, positions, frames, num_lead = uploaded[:, :4].unbind(1)
        state.text[index] = self._tokens.tts_pad
        state.text[index, :width] = uploaded[:, 6 + num_groups :]
        state.positions[index] = positions
        state.frames[index] = frames
        state.seeds[index] = uploaded[:, 4:6]
        state.has_occurred[index] = False
        last = self.talker.frame_table.frames(uploaded[:, 6 : 6 + num_groups])
        begin = self.talker.frame_table.rows[self._codec_tokens.bos]
        state.pending[index] = torch.where((num_lead > 0)[:, None], last, begin)
        self.cache.table[index] = self.cache.spare_block
        self._talker_sampling.write({each.slot: each.talker_sampling for each in starts})
        self._predictor_sampling.write({each.slot: each.predictor_sampling for each in starts})
        self._restore([each for each in starts if len(each.made)])

    def give(self, blocks: Mapping[int, Sequence[int]]) -> None:
        """Put blocks at the ends of slots' tables."""
        places: list[int] = []
        numbers: list[int] = []
        width = self.cache.table.shape[1]
        for slot, given in blocks.items():
            first, num_held = slot * width, self._num_held_blocks[slot]
            assert num_held + len(given) <= width, "a slot is given more than its request may hold"
            places += range(first + num_held, first + num_held + len(given))
            numbers += given
            self._num_held_blocks[slot] = num_held + len(given)
        if numbers:
            uploaded = upload(np.array((places, numbers), np.int64), self._device)
            self.cache.table.view(-1)[uploaded[0]] = uploaded[1].int()

    def write_text(self, texts: Sequence[tuple[int, int, Ids]]) -> None:
        """Set text: slot, number of the first frame, and the ids beside it and those after it."""
        places: list[int] = []
        ids: list[int] = []
        for slot, start, more in texts:
            heard = more[: max(0, self.max_positions - start)]  # what cannot fit is unheard
            first = slot * self.max_positions + start
            places += range(first, first + len(heard))
            ids += heard
        if ids:
            uploaded = upload(np.array((places, ids), np.int64), self._device)
            self.slots.text.view(-1)[uploaded[0]] = uploaded[1]

    def read(self, readings: Sequence[Reading], *, by_block: bool = False) -> None:
        """Compute keys and values of prompts, or of parts of them.

        Args:
            readings: which.
            by_block: block by block, so that what comes of a position does not depend on the
                parts by rounding, as long as they begin and end where blocks do.
        """
        self._reader.read(readings, by_block=by_block)

    def replay(self, slots: Sequence[int], frames: Codes, num_visible: int) -> None:
        """Compute again what `step` has left behind of frames that are known, to the last bit.

        The codes that have occurred and the frame store are left alone: `start` restores them.

        Args:
            slots: each at the position of its frame.
            frames: int64, ``[len(slots), num_groups]``.
            num_visible: as for `step`.
        """
        state = self.slots
        if kernels.run_on(state.pending):
            self._replay_fused(slots, frames, num_visible)
            return
        index, codes = upload(slots, self._device), upload(frames, self._device)
        positions, made = state.positions[index], state.frames[index]
        text = F.embedding(state.text[index, made], self.talker.text_table)
        self._talk((state.pending[index] + text)[:, None], index, positions, num_visible)
        state.pending[index] = self.talker.frame_table.frames(codes)
        state.positions[index], state.frames[index] = positions + 1, made + 1

    def step(self, slots: Sequence[int], num_visible: int) -> Tensor:
        """Make one frame in each of ``slots``.

        Args:
            slots: all prefilled.
            num_visible: at least the number of positions that the fullest of them will then hold.

        Returns:
            int64, ``[len(slots), num_groups + 1]``: a frame's codes, then what became of it. It
            holds until the next step.
        """
        talker_top_k, talker_top_p = self._talker_sampling.reach(slots)
        predictor_top_k, predictor_top_p = self._predictor_sampling.reach(slots)
        shape = StepShape(
            len(slots), num_visible, talker_top_k, predictor_top_k, talker_top_p or predictor_top_p
        )
        if self.graphs.is_enabled:
            shape = self._rounded(shape)
            if shape not in self.graphs:
                self._capture(shape)
        padding = [self.num_slots] * (shape.num_rows - len(slots))
        self._index[: shape.num_rows].copy_(upload([*slots, *padding], self._device))
        return self.graphs.run(shape, partial(self._make_frames, shape))[: len(slots)]

    def _restore(self, starts: Sequence[SlotStart]) -> None:
        """Put back what the frames that requests made before had left in their slots."""
        if not starts:
            return
        said = [(each.slot, code) for each in starts for code in each.made[:, 0]]
        slots, codes = upload(np.array(said, np.int64).T, self._device)
        self.slots.has_occurred[slots, codes] = True
        rows = [
            (each.slot, number % FRAME_STORE_FRAMES, *each.made[number])
            for each in starts
            for number in range(max(0, len(each.made) - FRAME_STORE_FRAMES), len(each.made))
        ]
        uploaded = upload(np.array(rows, np.int64), self._device)
        self.slots.frame_store[uploaded[:, 0], uploaded[:, 1]] = uploaded[:, 2:]

    def _rounded(self, shape: StepShape) -> StepShape:
        """Return the shape of the graph that serves ``shape``."""
        return StepShape(
            num_rows=round_up(shape.num_rows, self._row_buckets),
            num_visible=round_up(shape.num_visible, self._visible_buckets),
            talker_top_k=self.talker.config.vocab_size,
            predictor_top_k=self.predictor.config.vocab_size,
            # What draws on a GPU asks each row for its own.
            uses_top_p=shape.uses_top_p and not kernels.run_on(self.slots.pending),
        )

    def _capture(self, shape: StepShape) -> None:
        """Capture a graph, touching the row for padding alone."""
        with self.graphs.on_stream():
            self._index.fill_(self.num_slots)
        self.graphs.capture(shape, partial(self._make_frames, shape))

    def _make_frames(self, shape: StepShape) -> Tensor:
        """Compute a step of the slots in the buffer; all that happens on the device."""
        index = self._index[: shape.num_rows]
        if kernels.run_on(self.slots.pending):
            return self._make_frames_fused(index, shape)
        state = self.slots
        last = self.max_positions - 1  # reached only by a step whose result nobody wants
        positions = state.positions[index].clamp(max=last)
        frames = state.frames[index].clamp(max=last)
        text = F.embedding(state.text[index, frames], self.talker.text_table)
        states = (state.pending[index] + text)[:, None]
        hidden = self._talk(states, index, positions, shape.num_visible)

        codes, scores = self._empty_frames(shape.num_rows)
        noise = self._noise(index, frames)
        rows = self._talker_sampling.rows(index, shape.talker_top_k, shape.uses_top_p)
        logits = self.talker.logits(hidden)
        logits = penalize_repetition(logits, state.has_occurred[index], rows.repetition_penalty)
        logits = self.talker.forbid(logits, frames < MIN_NEW_TOKENS)
        codes[:, 0], scores[:, 0] = sample(logits, rows, noise[0])
        rows = self._predictor_sampling.rows(index, shape.predictor_top_k, shape.uses_top_p)
        self.predictor.complete(hidden, (codes, scores), rows, noise[1], self._frame_cache)

        said = codes[:, :-1]
        state.pending[index] = self.talker.frame_table.frames(said)
        state.advance(index, positions, frames, said)
        outcome = torch.where(codes[:, 0] == self._codec_tokens.eos, STOP, FRAME)
        codes[:, -1] = torch.where(scores.isfinite().all(dim=1), outcome, FAULT)
        return codes

    def _make_frames_fused(self, index: Tensor, shape: StepShape) -> Tensor:
        """Do the same with a kernel for each end of the step."""
        from antiphon.nn.kernels import frame as ends

        state, talker = self.slots, self.talker
        counts, norm = (state.positions, state.frames), talker.transformer.first_norm
        text = (state.text, talker.text_table)
        states, positions, frames = ends.begin(index, state.pending, text, counts, norm)
        hidden = self._talk(states, index, positions, shape.num_visible)

        codes, scores = self._empty_frames(shape.num_rows)
        noise = self._noise(index, frames)
        said = ends.Said(
            self._talker_sampling.parameters,
            state.has_occurred,
            talker.is_forbidden,
            state.frames,
            self._codec_tokens.eos,
            MIN_NEW_TOKENS,
        )
        ends.say(talker.head(hidden), index, said, noise[0], codes[:, 0], scores[:, 0])
        rows = self._predictor_sampling.rows(index, shape.predictor_top_k, uses_top_p=False)
        self.predictor.complete(hidden, (codes, scores), rows, noise[1], self._frame_cache)

        table = (talker.frame_table.rows, talker.frame_table.offsets)
        eos, store = self._codec_tokens.eos, state.frame_store
        ends.finish(index, (codes, scores), eos, table, counts, state.pending, store)
        return codes

    def _replay_fused(self, slots: Sequence[int], frames: Codes, num_visible: int) -> None:
        """Do the same with the kernels of a step, in the shape of one."""
        from antiphon.nn.kernels import frame as ends

        state, talker = self.slots, self.talker
        shape = self._rounded(StepShape(len(slots), num_visible, 1, 1, uses_top_p=False))
        index = np.full(shape.num_rows, self.num_slots)
        index[: len(slots)] = slots
        numbers = np.zeros((shape.num_rows, frames.shape[1] + 1), np.int64)
        numbers[: len(slots), :-1] = frames  # the last column is for what became of them
        rows, codes = upload(index, self._device), upload(numbers, self._device)

        counts, norm = (state.positions, state.frames), talker.transformer.first_norm
        text = (state.text, talker.text_table)
        states, positions, _ = ends.begin(rows, state.pending, text, counts, norm)
        self._talk(states, rows, positions, shape.num_visible)
        table = (talker.frame_table.rows, talker.frame_table.offsets)
        made = (codes, torch.zeros(shape.num_rows, frames.shape[1], device=self._device))
        eos, elsewhere = self._codec_tokens.eos, torch.empty_like(state.frame_store[:, :1])
        ends.finish(rows, made, eos, table, counts, state.pending, elsewhere)

    def _empty_frames(self, num_rows: int) -> tuple[Tensor, Tensor]:
        """Return room for codes and what became of each row, and for the codes' scores."""
        num_groups = self.slots.frame_store.shape[2]
        codes = torch.empty(num_rows, num_groups + 1, dtype=torch.int64, device=self._device)
        return codes, torch.empty(num_rows, num_groups, device=self._device)

    def _noise(self, index: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return the noise of group 0, and of the groups after it."""
        seeds, vocab_size = self.slots.seeds[index], self.talker.config.vocab_size
        first = gumbel_noise(seeds, frames, self._group_0, vocab_size)[:, 0]
        vocab_size = self.predictor.config.vocab_size
        return first, gumbel_noise(seeds, frames, self._later_groups, vocab_size)

    def _talk(
        self, states: "Tensor | Scaled", index: Tensor, positions: Tensor, num_visible: int
    ) -> Tensor:
        """Run the talker one position on; return its states, ``[num_rows, hidden_size]``."""
        rotation = self.talker.transformer.rope.at(positions[:, None])
        attend = DecodeAttention(self.cache, index, positions, num_visible)
        return self.talker(states, rotation, attend)[:, 0]


def _row_buckets(num_slots: int) -> tuple[int, ...]:
    """Return the numbers of rows that a step is rounded up to."""
    largest = _ROW_BUCKETS[-1]
    sizes = [*_ROW_BUCKETS, *range(largest + largest // 2, num_slots, largest // 2)]
    return (*(size for size in sizes if size < num_slots), num_slots)
