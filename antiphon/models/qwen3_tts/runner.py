"""Drives the language model: what a plan says goes in, one frame a slot comes out."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.engine.device import resolve_device, resolve_dtype
from antiphon.engine.plan import Append, Start, StepOutput, StepPlan
from antiphon.models.qwen3_tts.config_reader import load_config
from antiphon.models.qwen3_tts.guards import MAX_POSITIONS, LoopDetector, frame_budget
from antiphon.models.qwen3_tts.language_model import FAULT, STOP, load_language_model
from antiphon.models.qwen3_tts.prompt_layout import Qwen3TTSPrompt
from antiphon.models.spec import LoadContext

logger = logging.getLogger(__name__)

Codes = NDArray[np.int64]
"""A frame: one code of each group, shape ``[num_groups]``."""


@dataclass(slots=True, eq=False)
class _Slot:
    """What the host knows of a request."""

    prompt: Qwen3TTSPrompt
    text: list[int]
    num_text_tokens: int
    is_open: bool
    is_prefilled: bool = False
    num_frames: int = 0
    loop_detector: LoopDetector = field(default_factory=LoopDetector)

    @property
    def next_position(self) -> int:
        return self.prompt.num_prefilled + self.num_frames

    @property
    def lead_text(self) -> tuple[int, ...] | None:
        """Text beside the reference's frames, once it is known; it may have ended before."""
        num_needed = self.prompt.num_reference_frames
        if self.is_open and len(self.text) < num_needed:
            return None
        return tuple(self.text[:num_needed])


class Qwen3TTSRunner:
    """Steps any number of requests; a frame depends on its own request alone.

    Attributes:
        num_slots: requests that can be under way at once.
    """

    def __init__(
        self,
        context: LoadContext,
        *,
        is_batched: bool | None = None,
        max_positions: int = MAX_POSITIONS,
    ) -> None:
        """Load a checkpoint's language model.

        Args:
            context: where and how.
            is_batched: whether a step computes all its slots together. One by one is slower, and
                exact: then a request's codes do not depend on its company even by rounding.
                Default: together on a GPU, one by one on the CPU.
            max_positions: of a request, prompt and frames together.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        assert context.path is not None, "the family needs a checkpoint"
        device = resolve_device(context.device)
        config = load_config(context.path)
        self.num_slots = context.max_slots
        self._model = load_language_model(
            context.path,
            config,
            like=torch.empty(0, dtype=resolve_dtype(context.dtype, device), device=device),
            num_slots=self.num_slots,
            max_positions=max_positions,
            progress=context.progress_of("talker"),
        )
        self._tts_pad = config.tokens.tts_pad
        is_batched = device.type != "cpu" if is_batched is None else is_batched
        self._num_rows = self.num_slots if is_batched else 1
        self._slots: dict[int, _Slot] = {}

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> StepOutput:
        """Carry out one step."""
        for slot in plan.releases:
            del self._slots[slot]
        for start in plan.starts:
            self._start(start)
        for append in plan.appends:
            self._append(append)
        for slot in self._slots:
            self._prefill(slot)
        frames: dict[int, Codes] = {}
        stopped, lengths, faults = set(), set(), set()
        for slot, codes, outcome in self._step(plan.slots):
            if outcome == FAULT:
                logger.error("slot %d: what was computed is no number; its request ends", slot)
                self._model.clear(slot)
                faults.add(slot)
            elif outcome == STOP:
                stopped.add(slot)
            else:
                frames[slot] = codes
                if self._has_run_away(slot, codes):
                    lengths.add(slot)
        return StepOutput(frames, frozenset(stopped), frozenset(lengths), frozenset(faults))

    def close(self) -> None:
        """Free what loading took."""
        self._slots.clear()
        del self._model

    def _start(self, start: Start) -> None:
        prompt = start.prompt.data
        assert isinstance(prompt, Qwen3TTSPrompt)
        assert prompt.num_prefilled < self._model.max_positions, "the prompter lets none so long by"
        state = _Slot(prompt, [], prompt.num_text_tokens, prompt.is_open)
        self._slots[start.slot] = state
        self._model.start(start.slot, start.prompt.seed, start.prompt.sampling, prompt)
        self._extend_text(start.slot, prompt.text)

    def _append(self, append: Append) -> None:
        state, ids = self._slots[append.slot], append.piece.data
        assert state.is_open, "text came after its end"
        state.is_open = append.piece.num_frames_allowed is not None
        state.num_text_tokens += len(ids)
        self._extend_text(append.slot, ids)

    def _extend_text(self, slot: int, ids: tuple[int, ...]) -> None:
        """Put text after what a slot has; the part beside frames to be made goes to the device."""
        state = self._slots[slot]
        first_frame = len(state.text) - state.prompt.num_reference_frames
        state.text += ids
        self._model.write_text(slot, max(0, first_frame), ids[max(0, -first_frame) :])

    def _prefill(self, slot: int) -> None:
        """Read a prompt as soon as all text beside its reference is there."""
        state = self._slots[slot]
        if state.is_prefilled or (text := state.lead_text) is None:
            return
        padding = (self._tts_pad,) * (state.prompt.num_reference_frames - len(text))
        self._model.prefill(slot, state.prompt, text + padding)
        state.is_prefilled = True

    def _step(self, slots: Sequence[int]) -> Iterator[tuple[int, Codes, int]]:
        """Compute a step; yield each slot's codes and what became of it."""
        groups = [slots[start : start + self._num_rows] for start in self._group_starts(slots)]
        if not groups:
            return
        results = [self._model.step(group, self._num_visible(group)) for group in groups]
        rows = torch.cat(results).cpu().numpy()
        for slot, row in zip(slots, rows, strict=True):
            self._slots[slot].num_frames += 1
            yield slot, row[:-1], int(row[-1])

    def _group_starts(self, slots: Sequence[int]) -> range:
        return range(0, len(slots), self._num_rows)

    def _num_visible(self, slots: Sequence[int]) -> int:
        return 1 + max(self._slots[slot].next_position for slot in slots)

    def _has_run_away(self, slot: int, codes: Codes) -> bool:
        """Whether a slot's latest frame has to be its last."""
        state = self._slots[slot]
        is_looping = state.loop_detector.observe(int(codes[0]))
        is_full = state.next_position >= self._model.max_positions
        is_over = not state.is_open and state.num_frames >= frame_budget(state.num_text_tokens)
        return is_looping or is_full or is_over
