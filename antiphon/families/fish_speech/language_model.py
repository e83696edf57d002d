"""Autoregressive model over frames of ten codes, from the slow and the fast model.

A step reads and writes only tensors and needs no synchronisation with the device. Sampling avoids
repetitions as in the official code: a semantic code that occurred in the ten previous frames is
redrawn at a higher temperature. (The first frame is not among these ten.)
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, Unpack

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.ar_model import Codes, Frames, Inputs, SlotStart
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.fish_speech.config import LICENCE, MAX_POSITIONS, load_config
from antiphon.families.fish_speech.dual_ar import SlowModel, load_fast_model
from antiphon.families.fish_speech.weights import model_weights
from antiphon.families.kit.loading import RunnerOptions, runner_of, weights_for
from antiphon.families.kit.mixed.model import MixedPromptModel
from antiphon.families.kit.mixed.prompt import MixedPrompt
from antiphon.nn.attention import Attend, FrameCache, KVShape
from antiphon.nn.code_predictor import CodePredictor
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.sampler import (
    RepetitionAware,
    SamplingReach,
    SamplingRows,
    SamplingTable,
    keep_nucleus,
)

Reaches: TypeAlias = tuple[SamplingReach, SamplingReach]
"""Sampling ranges of the slow and of the fast model."""

WINDOW_FRAMES = 10
_HOT_TEMPERATURE, _HOT_TOP_P = 1.0, 0.9
_FIRST_WATCHED = 1


class DualARModel(MixedPromptModel[MixedPrompt]):
    """Language model of frames: a slow model, and a fast one within a frame.

    Attributes:
        pending: next input of each slot, ``[num_rows, hidden_size]``.
    """

    def __init__(
        self, slow: SlowModel, fast: CodePredictor, *, num_slots: int, max_positions: int
    ) -> None:
        """Allocate the state of slots; ``max_positions`` of prompt and frames together."""
        table, num_codebooks = slow.text_table, len(fast.heads) + 1
        rows = {"num_slots": num_slots, "max_positions": max_positions}
        super().__init__(table, width=table.shape[1], frame_size=num_codebooks, **rows)
        self.slow, self.fast = slow, fast
        self._gumbel = slow.head.backend.gumbel_noise
        num_rows, device = num_slots + 1, self._device
        self._num_logits = len(slow.head.weight)
        self.pending = table.new_zeros(num_rows, self.width)
        self._slow_sampling = SamplingTable(num_rows, self._num_logits, device)
        self._fast_sampling = SamplingTable(num_rows, fast.vocab_size, device)
        self._frame_cache: FrameCache = fast.new_cache(num_slots)
        self._is_no_code = torch.arange(self._num_logits, device=device) >= slow.num_codes
        self._is_end = torch.arange(self._num_logits, device=device) == slow.end
        codebooks = torch.arange(num_codebooks + 1, device=device)
        self._codebooks = codebooks[1:-1]
        # The second one is the redraw's; kernels require adjacent numbers.
        self._draws_of_first = codebooks[::num_codebooks].contiguous()

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        return (self.slow.transformer.kv_shape,)

    def start(self, starts: Sequence[SlotStart[MixedPrompt]], uploads: PackedUpload) -> None:
        begun: list[tuple[int, int]] = []
        led: list[tuple[int, Codes]] = []
        for each in starts:
            request, position = each.request, each.prompt.num_positions + each.next_frame
            if each.next_frame:
                led.append((each.slot, request.frames_between(position, position + 1)[0]))
            else:
                begun.append((each.slot, request.ids[position]))
        if begun:
            uploads.add(self._begin, np.array(begun, np.int64).T)
        if led:
            slots, frames = zip(*led, strict=True)
            uploads.add(self._follow, np.array(slots, np.int64), np.stack(frames))
        samplings = {each.slot: each.prompt.sampling for each in starts}
        self._slow_sampling.write(samplings, uploads)
        self._fast_sampling.write(samplings, uploads)

    def _begin(self, begun: Tensor) -> None:
        """Set the next input of slots to text; ``begun`` holds slots, then ids."""
        self.pending[begun[0]] = self.slow.text_table[begun[1]]

    def _follow(self, index: Tensor, frames: Tensor) -> None:
        """Set the next input of slots to frames generated before."""
        self.pending[index] = self.embed_frames(frames)

    def embed_text(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.slow.text_table)

    def embed_frames(self, frames: Tensor) -> Tensor:
        return self.slow.frame_table.frames(frames)

    def sampling_shape(self, slots: Sequence[int]) -> Reaches:
        return self._slow_sampling.reach(slots), self._fast_sampling.reach(slots)

    def next_states(self, slots: Tensor) -> Tensor:
        return self.pending[slots]

    def forward(
        self, states: Tensor, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        transformer = self.slow.transformer
        return transformer(states, transformer.rope.at(positions), attends[0])

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: Reaches) -> Frames:
        frames = Frames.empty(len(inputs.slots), self.slots)
        normed = self.slow.norm(hidden)
        codes, scores = self._draw_first(normed, inputs, sampling[0])
        # NaN logits can yield any draw, including padding beyond the codes.
        frames.codes[:, 0], frames.scores[:, 0] = codes.clamp(max=self.slow.end), scores
        rows = self._fast_sampling.rows(inputs.slots, sampling[1])
        seeds = self.slots.seeds[inputs.slots]
        noise = self._gumbel(seeds, inputs.frames, self._codebooks, self.fast.vocab_size)
        read = normed if self.slow.norms_fast_input else hidden
        self.fast.complete(read, (frames.codes, frames.scores), rows, noise, self._frame_cache)
        return frames

    def _draw_first(
        self, normed: Tensor, inputs: Inputs, reach: SamplingReach
    ) -> tuple[Tensor, Tensor]:
        """Draw semantic codes or the end."""
        logits = self.slow.head(normed).float().masked_fill(self._is_no_code, -torch.inf)
        logits = self.hold_end(logits, self._is_end, inputs)
        rows = self._slow_sampling.rows(inputs.slots, reach)
        seeds = self.slots.seeds[inputs.slots]
        noise = self._gumbel(seeds, inputs.frames, self._draws_of_first, self._num_logits)
        recent = self.slots.recent(inputs.slots, inputs.frames, WINDOW_FRAMES, _FIRST_WATCHED)
        watch = RepetitionAware(recent, noise[:, 1], 1 / WINDOW_FRAMES, self._draw_hotter)
        return watch(logits, rows, self._draw(logits, rows, noise[:, 0]))

    def _draw(self, logits: Tensor, rows: SamplingRows, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Draw in the official order: top-k and top-p before temperature."""
        kept, plain = keep_nucleus(logits, rows), rows.unfiltered(self._num_logits)
        return self.slow.head.backend.sample(kept, plain, noise)

    def _draw_hotter(
        self, logits: Tensor, rows: SamplingRows, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Draw replacements of repeated codes."""
        hot = replace(
            rows,
            temperature=torch.full_like(rows.temperature, _HOT_TEMPERATURE),
            top_p=torch.full_like(rows.top_p, _HOT_TOP_P),
        )
        return self._draw(logits, hot, noise)

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        codes = frames.codes[:, :-1]
        self.pending[inputs.slots] = self.embed_frames(codes)
        is_end, is_finite = codes[:, 0] == self.slow.end, frames.scores.isfinite().all(dim=1)
        self.finish(frames, inputs, is_replay=is_replay, is_end=is_end, is_finite=is_finite)


FishSpeechRunner: TypeAlias = ModelRunner[MixedPrompt]

_log = logging.getLogger(__name__)


def load_runner(
    context: LoadContext, *, max_positions: int = MAX_POSITIONS, **how: Unpack[RunnerOptions]
) -> FishSpeechRunner:
    """Load a checkpoint's models and their runner; see `runner_of`; raises ModelLoadError."""
    return runner_of(context, load_model(context, max_positions), max_positions, **how)


def load_model(context: LoadContext, max_positions: int = MAX_POSITIONS) -> DualARModel:
    """Load both models, and log the terms of their licence; raises ModelLoadError."""
    config = load_config(context.checkpoint)
    _log.warning("%s: Fish Speech weights are under the %s.", context.checkpoint, LICENCE)
    how = weights_for(context, "language model")
    opened = model_weights(context.checkpoint, config, **how)
    is_invariant = context.is_deterministic
    with torch.inference_mode(), opened as weights:
        return DualARModel(
            SlowModel.of(weights, config, max_positions, is_invariant),
            load_fast_model(weights, config, is_invariant),
            num_slots=context.max_slots,
            max_positions=max_positions,
        )
