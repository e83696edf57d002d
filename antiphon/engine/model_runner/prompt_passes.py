"""Prompts of a step: prefills, and frames that are computed again one by one."""

from collections.abc import Mapping, Sequence
from itertools import compress, pairwise
from typing import Generic, TypeAlias

import numpy as np

from antiphon.engine.model_runner.ar_model import PromptSpan, RequestT, SlotStart, Spans
from antiphon.engine.model_runner.decode import DecodeSteps
from antiphon.engine.model_runner.prefill import Prefiller
from antiphon.engine.plan import CacheShape, Prefill
from antiphon.nn.device_writes import PackedUpload

PromptWork: TypeAlias = tuple[list[PromptSpan[RequestT]], dict[int, range]]
"""Prompts of slots, and positions of known frames by slot, before they make a frame."""


class PromptPasses(Generic[RequestT]):
    """Computes the prefills of a plan outside of the pass that makes frames."""

    def __init__(
        self,
        slots: Mapping[int, SlotStart[RequestT]],
        prefiller: Prefiller[RequestT],
        steps: DecodeSteps[RequestT],
        cache: CacheShape,
        *,
        is_batched: bool,
    ) -> None:
        """Prepare passes for the requests of ``slots``, which the runner updates."""
        self._slots = slots
        self._prefiller = prefiller
        self._steps = steps
        self._is_batched = is_batched
        self._is_exact = cache.replayed_positions is not None
        self._is_parted = not is_batched or (cache.copies_blocks and not self._is_exact)

    def parted(self, prefills: Sequence[Prefill]) -> PromptWork[RequestT]:
        """Separate prompts from frames that must be computed step by step, to be exact."""
        spans: list[PromptSpan[RequestT]] = []
        replays: dict[int, range] = {}
        for prefill in prefills:
            state, end = self._slots[prefill.slot], prefill.end
            num_common = state.prompt.num_common_positions
            if self._is_exact:
                end = min(prefill.end, state.prompt.num_positions)
                if prefill.end > (start := max(prefill.start, end)):
                    replays[prefill.slot] = range(start, prefill.end)
            borders = [prefill.start, end]
            if self._is_parted and prefill.start < num_common < end:
                borders.insert(1, num_common)  # as if common positions were copied
            for first, last in pairwise(borders):
                if first < last:
                    spans.append(PromptSpan(prefill.slot, state.request, first, last))
        return spans, replays

    def without_common(self, spans: Spans[RequestT], uploads: PackedUpload) -> Spans[RequestT]:
        """Compute common positions in a pass of their own if need be; return the other spans.

        ``uploads`` are sent before that.
        """
        if not (self._is_batched and self._is_parted):
            return spans
        num_common = [self._slots[span.slot].prompt.num_common_positions for span in spans]
        is_common = [span.end <= most for span, most in zip(spans, num_common, strict=True)]
        if common := [*compress(spans, is_common)]:
            self._prefiller.prefill(common, uploads)
        return [span for span, is_one in zip(spans, is_common, strict=True) if not is_one]

    def compute(self, work: PromptWork[RequestT], uploads: PackedUpload) -> None:
        """Compute positions in passes of their own, after ``uploads`` are sent."""
        spans, replays = work
        if others := self.without_common(spans, uploads):
            self._prefiller.prefill(others, uploads, by_block=not self._is_batched)
        uploads.send()
        for number in range(max(map(len, replays.values()), default=0)):
            due = {slot: each[number] for slot, each in replays.items() if number < len(each)}
            self._replay(due)

    def _replay(self, positions: Mapping[int, int]) -> None:
        """Compute one position of a known frame again in each slot."""
        frames = []
        for slot, position in positions.items():
            state = self._slots[slot]
            frames.append(state.frames[position - state.prompt.num_positions])
        self._steps.replay([*positions], np.stack(frames), max(positions.values()) + 1)
