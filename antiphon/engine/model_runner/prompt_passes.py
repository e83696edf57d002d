"""Prompts of a step: parted into what is computed alike, and frames that are made again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Generic

import numpy as np

from antiphon.engine.model_runner.ar_model import Codes, PromptSpan, RequestT
from antiphon.engine.model_runner.decode import DecodeSteps
from antiphon.engine.model_runner.prefill import Prefiller
from antiphon.engine.plan import CacheShape, Prefill
from antiphon.nn.packed_upload import PackedUpload


@dataclass(slots=True, eq=False)
class RunningRequest(Generic[RequestT]):
    """What the host knows of a request in a slot.

    Attributes:
        made: frames from before the request lost its slot.
        num_prompt_positions: before the one that the first frame is made from.
        num_common_positions: of these; see `Prompt`.
    """

    request: RequestT
    made: Codes
    num_prompt_positions: int
    num_common_positions: int


@dataclass(frozen=True, slots=True)
class PromptWork(Generic[RequestT]):
    """What slots need before they make a frame.

    Attributes:
        spans: of prompts.
        replays: by slot, positions at which frames of it were made.
    """

    spans: list[PromptSpan[RequestT]]
    replays: dict[int, range]


class PromptPasses(Generic[RequestT]):
    """Computes the parts of prompts that a plan names, outside of the pass that makes frames."""

    def __init__(
        self,
        slots: Mapping[int, RunningRequest[RequestT]],
        prefiller: Prefiller[RequestT],
        steps: DecodeSteps[RequestT],
        cache: CacheShape,
        *,
        is_batched: bool,
    ) -> None:
        """Begin.

        Args:
            slots: requests by slot, as they are at the time of a call.
            prefiller: computes spans.
            steps: computes frames again.
            cache: says whether frames are replayed, and common positions copied.
            is_batched: see `antiphon.engine.model_runner.model_runner.ModelRunner`.
        """
        self._slots = slots
        self._prefiller = prefiller
        self._steps = steps
        self._is_batched = is_batched
        self._is_exact = cache.replayed_positions is not None
        self._is_parted = not is_batched or (cache.copies_blocks and not self._is_exact)

    def parted(self, prefills: Sequence[Prefill]) -> PromptWork[RequestT]:
        """Part prompts from frames that must be computed as they were at first, to be exact."""
        spans: list[PromptSpan[RequestT]] = []
        replays: dict[int, range] = {}
        for prefill in prefills:
            state, end = self._slots[prefill.slot], prefill.end
            if self._is_exact:
                end = min(prefill.end, state.num_prompt_positions)
                if prefill.end > (start := max(prefill.start, end)):
                    replays[prefill.slot] = range(start, prefill.end)
            borders = [prefill.start, end]
            if self._is_parted and prefill.start < state.num_common_positions < end:
                borders.insert(1, state.num_common_positions)  # as if what is common were copied
            for first, last in pairwise(borders):
                if first < last:
                    spans.append(PromptSpan(prefill.slot, state.request, first, last))
        return PromptWork(spans, replays)

    def without_common(
        self, spans: Sequence[PromptSpan[RequestT]], uploads: PackedUpload
    ) -> Sequence[PromptSpan[RequestT]]:
        """Compute common positions in a pass of their own if need be; return the other spans.

        What ``uploads`` have is sent before that.
        """
        if not (self._is_batched and self._is_parted):
            return spans
        is_common = [span.end <= self._slots[span.slot].num_common_positions for span in spans]
        if common := [*compress(spans, is_common)]:
            self._prefiller.prefill(common, uploads)
        return [span for span, is_one in zip(spans, is_common, strict=True) if not is_one]

    def compute(self, work: PromptWork[RequestT], uploads: PackedUpload) -> None:
        """Compute positions in passes of their own; what ``uploads`` have is sent before that."""
        if spans := self.without_common(work.spans, uploads):
            self._prefiller.prefill(spans, uploads, by_block=not self._is_batched)
        uploads.send()
        replays = work.replays
        for number in range(max(map(len, replays.values()), default=0)):
            self._replay(
                {
                    slot: numbers[number]
                    for slot, numbers in replays.items()
                    if number < len(numbers)
                }
            )

    def _replay(self, positions: Mapping[int, int]) -> None:
        """Compute one position again in each slot, at which a frame of it was made."""
        frames = []
        for slot, position in positions.items():
            state = self._slots[slot]
            frames.append(state.made[position - state.num_prompt_positions])
        self._steps.replay([*positions], np.stack(frames), max(positions.values()) + 1)
