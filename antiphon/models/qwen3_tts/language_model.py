"""Talker, predictor and the state of every slot on the device: one call makes one frame a slot.

A step reads and writes tensors only; nothing in it waits for the device or asks what a tensor
holds. What the host must know (slot numbers, lengths) comes in as numbers.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.engine.attention import (
    DecodeAttention,
    FrameCache,
    PrefillAttention,
    SlotCache,
)
from antiphon.engine.graphs import Graphs, buckets, round_up
from antiphon.engine.sampler import (
    SamplingTable,
    gumbel_noise,
    penalize_repetition,
    sample,
    seed_words,
)
from antiphon.engine.transfer import upload
from antiphon.engine.weights import Progress
from antiphon.models.qwen3_tts.config import MIN_NEW_TOKENS, Qwen3TTSConfig
from antiphon.models.qwen3_tts.predictor import Predictor
from antiphon.models.qwen3_tts.prompt_layout import SPEAKER, Ids
from antiphon.models.qwen3_tts.slot_tensors import SlotTensors
from antiphon.models.qwen3_tts.step_inputs import (
    Prefill,
    PrefillShape,
    SlotStart,
    StepShape,
)
from antiphon.models.qwen3_tts.talker import Talker
from antiphon.models.qwen3_tts.weights import language_model_weights

FRAME, STOP, FAULT = 0, 1, 2
"""What became of a row in a step: a frame, the end of speech, or numbers that are none."""


_NO_ID = -1
_MIN_VISIBLE = 256
_MAX_PREFILL_TOKENS = 1024
_MAX_PREFILL_POSITIONS = 128
_NUM_VISIBLE_STEP = 4  # from one bucket of visible positions to the next


class LanguageModel:
    """Makes frames of codes for the requests in its slots.

    Attributes:
        num_slots: requests that fit.
        max_positions: of each, prompt and frames together.
    """

    def __init__(
        self,
        config: Qwen3TTSConfig,
        talker: Talker,
        predictor: Predictor,
        *,
        num_slots: int,
        max_positions: int,
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
        self._cache: SlotCache = talker.new_cache(num_rows, max_positions)
        self._frame_cache: FrameCache = predictor.new_cache(num_slots)
        vocab_size = config.talker.vocab_size
        table = talker.frame_table.rows
        self._slots = SlotTensors.zeros(num_rows, max_positions, vocab_size, table)
        self._talker_sampling = SamplingTable(num_rows, vocab_size, device)
        self._predictor_sampling = SamplingTable(num_rows, config.predictor.vocab_size, device)
        groups = torch.arange(config.talker.num_groups, device=device)
        self._true = torch.ones((), dtype=torch.bool, device=device)
        self._group_0, self._later_groups = groups[:1], groups[1:]

        self.graphs = Graphs(device, is_enabled=uses_graphs, priority=-1)
        self._row_buckets = buckets(num_slots)
        self._visible_buckets = buckets(
            max_positions, smallest=_MIN_VISIBLE, factor=_NUM_VISIBLE_STEP
        )
        self._index = torch.full((num_slots,), num_slots, device=device)
        self._prefill_index = torch.full((num_slots,), num_slots, device=device)
        self._prefill_states = table.new_zeros(_MAX_PREFILL_TOKENS, table.shape[1])

    def warm_up(self, progress: Progress | None = None) -> None:
        """Capture the graphs that ordinary requests need; does nothing without graphs."""
        if not self.graphs.is_enabled:
            return
        steps = [
            self._rounded(StepShape(num_rows, num_visible, 1, 1, uses_top_p=False))
            for num_visible in self._visible_buckets
            for num_rows in self._row_buckets
        ]
        lengths = buckets(min(_MAX_PREFILL_POSITIONS, self.max_positions), smallest=16)
        prefills = [
            PrefillShape(num_rows, length)
            for length in lengths
            for num_rows in self._row_buckets
            if num_rows * length <= _MAX_PREFILL_TOKENS
        ]
        shapes: list[StepShape | PrefillShape] = [*steps, *prefills]
        for number, shape in enumerate(shapes, start=1):
            self._capture(shape)
            if progress is not None:
                progress(number, len(shapes))

    def start(self, starts: Sequence[SlotStart]) -> None:
        """Give slots to requests, whatever they held before."""
        width = max(len(each.text) for each in starts)
        text = np.full((len(starts), width), self._tokens.tts_pad, np.int64)
        for row, each in zip(text, starts, strict=True):
            row[: len(each.text)] = each.text
        state, device = self._slots, self._device
        index = upload([each.slot for each in starts], device)
        state.text[index] = self._tokens.tts_pad
        width = min(width, self.max_positions)  # what cannot fit is unheard
        state.text[index, :width] = upload(text[:, :width], device)
        state.positions[index] = upload([each.prompt.num_prefilled for each in starts], device)
        state.frames[index] = 0
        state.seeds[index] = upload([seed_words(each.seed) for each in starts], device)
        state.has_occurred[index] = False
        self._talker_sampling.write({each.slot: each.sampling for each in starts})
        self._predictor_sampling.write(
            {each.slot: each.prompt.predictor_sampling for each in starts}
        )

    def write_text(self, slot: int, start: int, ids: Ids) -> None:
        """Set the text beside the frames from number ``start`` on; what cannot fit is unheard."""
        row = self._slots.text[slot, start : start + len(ids)]
        row.copy_(upload(ids[: len(row)], self._device))

    def prefill(self, prompts: Sequence[Prefill]) -> None:
        """Read prompts, each but for its last position, which is the first step's input."""
        shape = PrefillShape(len(prompts), max(each.prompt.num_prefilled for each in prompts))
        rounded = self._rounded_prefill(shape)
        states, slots = self._embedded(prompts, rounded)
        if rounded in self.graphs:
            num_tokens = rounded.num_rows * rounded.num_positions
            self._prefill_states[:num_tokens].copy_(states.flatten(0, 1))
            self._prefill_index[: rounded.num_rows].copy_(slots)
            self.graphs.run(rounded, partial(self._read_buffered, rounded))
        else:
            self._read(states, slots)

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

    def clear(self, slot: int) -> None:
        """Wipe a slot whose numbers went bad, so that the next request in it does not meet them."""
        self._cache.clear(slot)
        self._slots.pending[slot] = 0

    def _rounded(self, shape: StepShape) -> StepShape:
        """Return the shape of the graph that serves ``shape``."""
        return StepShape(
            num_rows=round_up(shape.num_rows, self._row_buckets),
            num_visible=round_up(shape.num_visible, self._visible_buckets),
            talker_top_k=self.talker.config.vocab_size,
            predictor_top_k=self.predictor.config.vocab_size,
            uses_top_p=shape.uses_top_p,
        )

    def _rounded_prefill(self, shape: PrefillShape) -> PrefillShape:
        """Return the smallest shape with a graph that holds ``shape``, or ``shape`` itself."""
        num_rows = round_up(shape.num_rows, self._row_buckets)
        for length in buckets(_MAX_PREFILL_POSITIONS, smallest=16):
            rounded = PrefillShape(num_rows, length)
            if length >= shape.num_positions and rounded in self.graphs:
                return rounded
        return shape

    def _capture(self, shape: StepShape | PrefillShape) -> None:
        """Capture a graph, touching the row for padding alone."""
        with self.graphs.on_stream():
            self._index.fill_(self.num_slots)
            self._prefill_index.fill_(self.num_slots)
        if isinstance(shape, StepShape):
            self.graphs.capture(shape, partial(self._make_frames, shape))
        else:
            self.graphs.capture(shape, partial(self._read_buffered, shape))

    def _make_frames(self, shape: StepShape) -> Tensor:
        """Compute a step of the slots in the buffer; all that happens on the device."""
        index = self._index[: shape.num_rows]
        state = self._slots
        last = self.max_positions - 1  # reached only by a step whose result nobody wants
        positions = state.positions[index].clamp(max=last)
        frames, seeds = state.frames[index].clamp(max=last), state.seeds[index]
        hidden = self._talk(index, positions, frames, shape.num_visible)

        noise = gumbel_noise(seeds, frames, self._group_0, self.talker.config.vocab_size)[:, 0]
        rows = self._talker_sampling.rows(index, shape.talker_top_k, shape.uses_top_p)
        logits = self.talker.logits(hidden)
        logits = penalize_repetition(logits, state.has_occurred[index], rows.repetition_penalty)
        logits = self.talker.forbid(logits, frames < MIN_NEW_TOKENS)
        first_codes, first_scores = sample(logits, rows, noise)

        later_vocab_size = self.predictor.config.vocab_size
        noise = gumbel_noise(seeds, frames, self._later_groups, later_vocab_size)
        rows = self._predictor_sampling.rows(index, shape.predictor_top_k, shape.uses_top_p)
        codes, scores = self.predictor(hidden, first_codes, rows, noise, self._frame_cache)

        state.pending[index] = self.talker.frame_table.frames(codes)
        state.advance(index, positions, frames)
        state.has_occurred.index_put_((index, first_codes), self._true)
        is_sound = first_scores.isfinite() & scores.isfinite().all(dim=1)
        outcome = torch.where(first_codes == self._codec_tokens.eos, STOP, FRAME)
        outcome = torch.where(is_sound, outcome, FAULT)
        return torch.cat((codes, outcome[:, None]), dim=1)

    def _talk(self, index: Tensor, positions: Tensor, frames: Tensor, num_visible: int) -> Tensor:
        """Run the talker one position on; return its states, ``[num_rows, hidden_size]``."""
        state = self._slots
        text = F.embedding(state.text[index, frames], self.talker.text_table)
        rotation = self.talker.transformer.rope.at(positions[:, None])
        attend = DecodeAttention(self._cache, index, positions, num_visible)
        return self.talker((state.pending[index] + text)[:, None], rotation, attend)[:, 0]

    def _read_buffered(self, shape: PrefillShape) -> Tensor:
        num_rows, num_positions = shape.num_rows, shape.num_positions
        states = self._prefill_states[: num_rows * num_positions].view(num_rows, num_positions, -1)
        return self._read(states, self._prefill_index[:num_rows])

    def _read(self, states: Tensor, slots: Tensor) -> Tensor:
        """Run the talker over the first positions of ``slots``."""
        num_positions = states.shape[1]
        rotation = self.talker.transformer.rope.between(0, num_positions)
        return self.talker(states, rotation, PrefillAttention(self._cache, slots, num_positions))

    def _embedded(self, prompts: Sequence[Prefill], shape: PrefillShape) -> tuple[Tensor, Tensor]:
        """Embed prompts, ``[num_rows, num_positions, hidden_size]``, and set what comes after.

        Returns:
            The states, padded, and their slots, padded too.
        """
        columns = np.full((shape.num_rows, shape.num_positions, 2), _NO_ID, np.int64)
        for row, each in enumerate(prompts):
            start, end = len(each.prompt.prefix), each.prompt.num_prefilled
            columns[row, :start] = each.prompt.prefix
            columns[row, start:end, 0] = each.text
            columns[row, start : min(start + 1, end), 1] = self._codec_tokens.bos
        padding = [self.num_slots] * (shape.num_rows - len(prompts))
        slots = upload([*(each.slot for each in prompts), *padding], self._device)
        text, codec = upload(columns, self._device).unbind(2)
        states = _embed_known(text, self.talker.text_table)
        states = states + _embed_known(codec, self.talker.frame_table.rows)
        self._slots.pending[slots] = self.talker.frame_table.rows[self._codec_tokens.bos]
        for row, each in enumerate(prompts):
            self._embed_voice(states[row], codec[row], each)
        return states, slots

    def _embed_voice(self, states: Tensor, codec: Tensor, each: Prefill) -> None:
        """Add what a prompt has besides ids: a speaker, and a reference's frames."""
        prompt = each.prompt
        if prompt.speaker is not None:
            speaker = torch.tensor(prompt.speaker).to(states)  # copied: it may be read-only
            states.copy_(torch.where((codec == SPEAKER)[:, None], states + speaker, states))
        if prompt.reference is not None:
            frames = self.talker.frame_table.frames(upload(prompt.reference, self._device))
            start = len(prompt.prefix) + 1
            states[start : start + len(frames) - 1] += frames[:-1]
            self._slots.pending[each.slot] = frames[-1]


def _embed_known(ids: Tensor, table: Tensor) -> Tensor:
    """Look ids up; negative ones, which stand for no id, give zeros."""
    rows = F.embedding(ids.clamp(min=0), table)
    return torch.where((ids >= 0)[..., None], rows, 0.0)


def load_language_model(
    path: Path,
    config: Qwen3TTSConfig,
    *,
    like: Tensor,
    num_slots: int,
    max_positions: int,
    progress: Progress | None = None,
    uses_graphs: bool = True,
) -> LanguageModel:
    """Load talker and predictor from a checkpoint's directory.

    Args:
        path: the directory.
        config: read from it.
        like: a tensor of the wanted type, on the wanted device.
        num_slots: requests that fit.
        max_positions: of each, prompt and frames together.
        progress: told of every tensor that has been read.
        uses_graphs: where there is a GPU.

    Raises:
        ModelLoadError: tensors are missing, or of the wrong shape.
    """
    with (
        torch.inference_mode(),
        language_model_weights(path, config, like=like, progress=progress) as weights,
    ):
        talker = Talker.of(weights, config.talker, max_positions)
        predictor = Predictor.of(weights, config.predictor, talker.frame_table)
        return LanguageModel(
            config,
            talker,
            predictor,
            num_slots=num_slots,
            max_positions=max_positions,
            uses_graphs=uses_graphs,
        )
