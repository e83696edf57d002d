"""Execution of step plans with an autoregressive model, and copies of exported hidden states."""

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.types import PositionStates
from antiphon.engine.model_runner.ar_model import (
    FAULT,
    FRAME,
    STOP,
    ARModel,
    Codes,
    IdPrompts,
    RequestT,
    SlotStart,
    Spans,
    SupportsHiddenStates,
)
from antiphon.engine.model_runner.decode import DecodeSteps
from antiphon.engine.model_runner.kv_cache import KVBudget, KVCaches
from antiphon.engine.model_runner.prefill import Prefiller
from antiphon.engine.model_runner.prompt_passes import PromptPasses
from antiphon.engine.plan import CacheShape, Start, StepOutput, StepPlan
from antiphon.engine.runner import BLOCK_POSITIONS
from antiphon.nn import kernels
from antiphon.nn.device_writes import Download, PackedUpload, RowWriter
from antiphon.nn.graphs import Graphs
from antiphon.nn.weights import Progress

logger = logging.getLogger(__name__)
_REPLAYED_POSITIONS = 8  # in a step, which takes as long as 8 steps
Item = TypeVar("Item")


class HiddenStatesCopy:
    """Hidden states of several slots, in one copy to the host."""

    def __init__(self, states: Mapping[int, tuple[int, Tensor]]) -> None:
        """Start the copy of `SupportsHiddenStates.hidden_states` on the current stream."""
        self._starts = {slot: start for slot, (start, _) in states.items()}
        tensors = [tensor for _, tensor in states.values()]
        self._sizes = [len(tensor) for tensor in tensors]
        self._download = Download(torch.cat(tensors).float())

    def by_slot(self) -> dict[int, PositionStates]:
        """Wait for the copy; return the states of each slot."""
        states = self._download.wait().numpy()
        parts = np.split(states, np.cumsum(self._sizes)[:-1])
        return {
            slot: PositionStates(start, part.copy())
            for (slot, start), part in zip(self._starts.items(), parts, strict=True)
        }


@dataclass(frozen=True, slots=True)
class _Launched(Generic[RequestT]):
    """Frames in flight, one of each slot.

    Attributes:
        numbers: numbers of the frames, from 1.
    """

    slots: Sequence[int]
    requests: Sequence[RequestT]
    numbers: NDArray[np.int64]
    num_positions: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Step:
    runner: "ModelRunner[Any]"
    frames: _Launched[Any]
    states: HiddenStatesCopy | None
    download: Download

    @property
    def is_done(self) -> bool:
        return self.download.is_done

    def wait(self) -> None:
        self.download.wait()

    def result(self) -> StepOutput:
        output = self.runner.collect(self.frames, self.download.wait().numpy())
        if self.states is None:
            return output
        return replace(output, hidden_states=self.states.by_slot())


class ModelRunner(Generic[RequestT]):
    """Steps any number of requests; a frame depends on its own request alone.

    Attributes:
        codec: ``None``: another runner decodes the frames.
        row_buckets: numbers of rows to which a step is rounded up.
    """

    codec = None

    def __init__(
        self,
        model: ARModel[RequestT],
        budget: KVBudget,
        *,
        is_batched: bool | None = None,
        is_deterministic: bool = False,
        copies_common: bool | None = None,
        uses_graphs: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Allocate the caches and capture the graphs that ordinary requests need.

        Args:
            is_batched: whether a step computes all its slots together, and prompts with them. One
                by one, each prompt in passes of its own, is slower and exact: a request's codes
                do not depend on the others even by rounding. Default: together on a GPU; on the
                CPU, prompts one by one, and as many rows together as are exact for the model.
            is_deterministic: whether the model is exact in a batch too.
            copies_common: whether common positions are copied where they can be; if a step is not
                exact, others' are computed in a pass of their own. Default: where it is exact.
            uses_graphs: whether a GPU runs CUDA graphs; without them steps are slow and unpadded.
        """
        device = model.like.device
        self.num_slots = budget.num_slots
        self._max_positions = budget.max_positions
        self._model = model
        with torch.inference_mode():
            self._caches = KVCaches(model.kv_shapes, budget, model.like)
            uses_graphs = uses_graphs and model.uses_kernels
            self._graphs = Graphs(device, is_enabled=uses_graphs, priority=-1)
            self._steps = DecodeSteps(model, self._caches, self._graphs, budget)
            visible = self._steps.visible_buckets
            self._prefiller = Prefiller(model, self._caches, self._graphs, visible)
            self._writer: RowWriter | None = None
            self._warm_up(progress)
        self._caches.log_memory()
        self._is_batched = device.type != "cpu" if is_batched is None else is_batched
        self._num_rows = model.num_exact_rows if is_batched is None else 1  # unless batched
        self._is_exact = not self._is_batched or is_deterministic
        self.row_buckets = self._steps.row_buckets
        self.cache = CacheShape(
            self._caches.num_blocks,
            BLOCK_POSITIONS,
            budget.max_positions,
            replayed_positions=_REPLAYED_POSITIONS if self._is_exact else None,
            copies_blocks=self._is_exact if copies_common is None else copies_common,
        )
        self._slots: dict[int, SlotStart[RequestT]] = {}
        self._prompts = PromptPasses(
            self._slots, self._prefiller, self._steps, self.cache, is_batched=self._is_batched
        )
        self._num_prompt_positions = np.zeros(self.num_slots, np.int64)
        self._num_frames = np.zeros(self.num_slots, np.int64)  # made before, and launched since
        self._num_launched = self._num_collected = 0  # steps
        # Requests that are gone, and the number of steps that may have frames of them.
        self._leaving: deque[tuple[int, RequestT]] = deque()

    @property
    def frame_store(self) -> Tensor:
        """The slots' latest frames; see `antiphon.codec.protocol.StreamingDecoder.launch`."""
        return self._model.slots.frame_store

    def on_stream(self) -> AbstractContextManager[object]:
        """Return a context whose work follows all steps launched so far."""
        return self._graphs.on_stream()

    @torch.inference_mode()
    def launch(self, plan: StepPlan) -> _Step:
        """Launch a step; see `antiphon.engine.runner.Runner`."""
        with self.on_stream():
            for slot in plan.releases:
                self._leaving.append((self._num_launched, self._slots.pop(slot).request))
            uploads = self._changes(plan)
            work = [self._prompts.parted(group) for group in self._groups(plan.prefills, 1)]
            spans: Spans[RequestT] = ()
            if self._is_batched and work and plan.decode_slots and not work[0][1]:
                spans = self._prompts.without_common(work.pop()[0], uploads)
            for part in work:
                self._prompts.compute(part, uploads)
            return self._step(plan.decode_slots, uploads, spans)

    def collect(self, launched: _Launched[RequestT], rows: Codes) -> StepOutput:
        """Sort a step's frames by outcome, one row each; a frame of a gone request counts too."""
        slots, outcomes, codes = np.array(launched.slots, np.int64), rows[:, -1], rows[:, :-1]
        requests, numbers = launched.requests, launched.numbers
        is_last = launched.num_positions >= self._max_positions
        is_frame = outcomes == FRAME
        if not is_frame.all():
            requests = [requests[row] for row in np.flatnonzero(is_frame).tolist()]
            numbers, is_last, codes = numbers[is_frame], is_last[is_frame], codes[is_frame]
        if requests:
            is_last = is_last | self._model.observe(requests, codes, numbers)
        for slot in slots[outcomes == FAULT].tolist():
            logger.error("slot %d: the model computed NaN; its request ends", slot)
        made = slots[is_frame]
        self._num_collected += 1
        while self._leaving and self._leaving[0][0] <= self._num_collected:
            self._model.close(self._leaving.popleft()[1])
        return StepOutput(
            # A view would keep all of the step's pinned memory, or its other rows.
            {slot: frame.copy() for slot, frame in zip(made.tolist(), codes, strict=True)},
            stopped=frozenset(slots[outcomes == STOP].tolist()),
            lengths=frozenset(made[is_last].tolist()),
        )

    def close(self) -> None:
        self._slots.clear()
        self._graphs.clear()
        del self._model, self._caches, self._steps, self._prefiller, self._prompts

    def _warm_up(self, progress: Progress | None) -> None:
        """Capture the graphs that ordinary requests need, if there are graphs."""
        device = self._caches.table.device
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # for the work of loading on other streams
        if not self._graphs.is_enabled:
            return
        if kernels.run_on(self._caches.table):
            self._writer = RowWriter(self._graphs, device)
            with self.on_stream():
                uploads = PackedUpload(device)  # what is too much for the writer goes this way
                self._caches.clear([0], uploads)
                uploads.send()
                if isinstance(self._model, IdPrompts):
                    self._model.warm_up()
        passes = self._prefiller.usual_shapes(self._steps.usual_visible)
        captures = [partial(self._steps.capture, shape) for shape in self._steps.usual_shapes]
        captures += [partial(self._prefiller.capture, shape) for shape in passes]
        for number, capture in enumerate(captures, start=1):
            capture()
            if progress is not None:
                progress(number, len(captures))
        self._graphs.settle()

    def _changes(self, plan: StepPlan) -> PackedUpload:
        """Return the changes of a plan in the slots, which are sent before anything is computed."""
        uploads = PackedUpload(self._caches.table.device, self._writer)
        if plan.starts:
            self._start(plan.starts, uploads)
        if plan.appends:
            pieces = [
                (each.slot, self._slots[each.slot].request, each.piece) for each in plan.appends
            ]
            self._model.append(pieces, uploads)
        if plan.blocks:
            self._caches.extend(plan.blocks, uploads)
        self._caches.copy(plan.copies, uploads)
        if self._is_batched:
            self._steps.place(plan.decode_slots, uploads)
        return uploads

    def _start(self, starts: Sequence[Start], uploads: PackedUpload) -> None:
        """Start requests in slots, whose block tables begin empty."""
        opened: list[SlotStart[RequestT]] = []
        no_frames = np.empty((0, self.frame_store.shape[2]), np.int64)
        for start in starts:
            slot, prompt = start.slot, start.prompt
            made = np.stack(start.frames) if start.frames else no_frames
            assert prompt.num_positions < self._max_positions, "the prompt is too long"
            self._num_prompt_positions[slot] = prompt.num_positions
            self._num_frames[slot] = len(made)
            next_frame = 0 if self._is_exact else len(made)  # exactly: all frames are replayed
            request = self._model.open(prompt, made)
            self._slots[slot] = SlotStart(slot, prompt, request, made, next_frame)
            opened.append(self._slots[slot])
        self._model.slots.start(opened, uploads)
        self._caches.clear([start.slot for start in opened], uploads)
        self._model.start(opened, uploads)

    def _step(
        self, slots: Sequence[int], uploads: PackedUpload, spans: Spans[RequestT] = ()
    ) -> _Step:
        """Launch one frame in each of ``slots``, with prompts in the same pass if all are one."""
        launched, results = self._count(slots), []
        num_visible = np.minimum(launched.num_positions, self._max_positions).tolist()
        groups = (self._groups(each, self._num_rows) for each in (slots, num_visible))
        for group, visible in zip(*groups, strict=True):
            if not self._is_batched:
                self._steps.place(group, uploads)
            if spans:
                hidden = self._prefiller.step(spans, group, max(visible), uploads)
                results.append(self._steps.draw(group, hidden))
            else:
                uploads.send()
                results.append(self._steps.step(group, max(visible)))
        uploads.send()  # without a frame too
        # Without frames too, the end of a download is the end of the step.
        rows = results or [self.frame_store.new_empty((0, 1))]
        states: HiddenStatesCopy | None = None
        if isinstance(self._model, SupportsHiddenStates):
            # Copied before the frames, whose end is waited for.
            exported = self._model.hidden_states(slots, launched.requests, launched.numbers)
            states = HiddenStatesCopy(exported) if exported else None
        download = Download(rows[0] if len(rows) == 1 else torch.cat(rows))
        return _Step(self, launched, states, download)

    def _count(self, slots: Sequence[int]) -> _Launched[RequestT]:
        index = np.array(slots, np.int64)
        self._num_frames[index] += 1
        numbers = self._num_frames[index]
        num_positions = self._num_prompt_positions[index] + numbers
        requests = [self._slots[slot].request for slot in slots]
        self._num_launched += 1
        return _Launched(slots, requests, numbers, num_positions)

    def _groups(self, items: Sequence[Item], size: int) -> list[Sequence[Item]]:
        """Split into what is computed together: all, or ``size`` items unless batched."""
        size = max(1, len(items)) if self._is_batched else size
        return [items[start : start + size] for start in range(0, len(items), size)]
