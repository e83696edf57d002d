"""Drives the language model: what a plan says goes in, one frame a slot comes out."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.plan import Append, CacheShape, Prefill, Start, StepOutput, StepPlan
from antiphon.models.qwen3_tts.config_reader import load_config
from antiphon.models.qwen3_tts.input_ids import Codes, columns_between, lead_frames, no_frames
from antiphon.models.qwen3_tts.kv_budget import BLOCK_POSITIONS, KVBudget
from antiphon.models.qwen3_tts.language_model import FAULT, STOP
from antiphon.models.qwen3_tts.language_model_loading import load_language_model
from antiphon.models.qwen3_tts.prompt_layout import Ids, MoreText, Qwen3TTSPrompt
from antiphon.models.qwen3_tts.step_inputs import Reading, SlotStart
from antiphon.models.qwen3_tts.stopping import MAX_POSITIONS, LoopDetector
from antiphon.models.spec import LoadContext
from antiphon.nn.device import resolve_device, resolve_dtype
from antiphon.nn.host_device import Download

logger = logging.getLogger(__name__)

_REPLAYED_POSITIONS = 8  # in a step, which takes as long as so many steps

Item = TypeVar("Item")


@dataclass(slots=True, eq=False)
class _Slot:
    """What the host knows of a request."""

    prompt: Qwen3TTSPrompt
    lead: Codes  # the reference's frames, and those made before the slot was taken
    text: list[int]
    max_frames: int
    is_open: bool
    num_frames: int
    loop_detector: LoopDetector = field(default_factory=LoopDetector)

    @property
    def num_positions(self) -> int:
        """Positions that the cache holds once all frames launched so far are made."""
        return self.prompt.num_prefilled + self.num_frames


@dataclass(frozen=True, slots=True)
class _Launched:
    """A frame under way."""

    slot: int
    state: _Slot
    number: int  # from 1


class _Step:
    """A step under way; see `antiphon.engine.runner.PendingStep`."""

    def __init__(
        self, runner: "Qwen3TTSRunner", frames: Sequence[_Launched], download: Download | None
    ) -> None:
        self._runner = runner
        self._frames = frames
        self._download = download

    @property
    def is_done(self) -> bool:
        return self._download is None or self._download.is_done

    def result(self) -> StepOutput:
        if self._download is None:
            return StepOutput({})
        return self._runner.collect(self._frames, self._download.wait().numpy())


class Qwen3TTSRunner:
    """Steps any number of requests; a frame depends on its own request alone.

    Attributes:
        num_slots: requests that can be under way at once.
        cache: blocks for their positions.
        codec: none; its frames are for others to decode.
    """

    codec = None

    def __init__(
        self,
        context: LoadContext,
        *,
        is_batched: bool | None = None,
        uses_graphs: bool = True,
        max_positions: int = MAX_POSITIONS,
        cache_bytes: int | None = None,
    ) -> None:
        """Load a checkpoint's language model.

        Args:
            context: where and how.
            is_batched: whether a step computes all its slots together. One by one is slower, and
                exact: then a request's codes do not depend on its company even by rounding.
                Default: together on a GPU, one by one on the CPU.
            uses_graphs: on a GPU; without them a step is exact in its shapes, and slow.
            max_positions: of a request, prompt and frames together.
            cache_bytes: for keys and values; by default what the slots usually need.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        assert context.path is not None, "the family needs a checkpoint"
        device = resolve_device(context.device)
        self._config = load_config(context.path)
        self.num_slots = context.max_slots
        self._model = load_language_model(
            context.path,
            self._config,
            KVBudget(self.num_slots, max_positions, cache_bytes or context.cache_bytes),
            like=torch.empty(0, dtype=resolve_dtype(context.dtype, device), device=device),
            is_batch_invariant=context.is_deterministic,
            progress=context.progress_of("talker"),
            uses_graphs=uses_graphs,
        )
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # what loading has put on other streams
        with torch.inference_mode():
            self._model.warm_up(context.progress_of("graphs"))
        is_batched = device.type != "cpu" if is_batched is None else is_batched
        self._num_rows = self.num_slots if is_batched else 1
        self._is_exact = not is_batched or context.is_deterministic
        self.cache = CacheShape(
            self._model.cache.spare_block,
            BLOCK_POSITIONS,
            max_positions,
            replayed_positions=_REPLAYED_POSITIONS if self._is_exact else None,
        )
        self._slots: dict[int, _Slot] = {}

    def run(self, plan: StepPlan) -> StepOutput:
        """Carry out one step and wait for it."""
        return self.launch(plan).result()

    @property
    def frame_store(self) -> Tensor:
        """The slots' latest frames; see `antiphon.codec.protocol.StreamingDecoder.launch`."""
        return self._model.slots.frame_store

    def on_stream(self) -> AbstractContextManager[object]:
        """Return a context in which work is put after that of all steps launched so far."""
        return self._model.graphs.on_stream()

    @torch.inference_mode()
    def launch(self, plan: StepPlan) -> _Step:
        """Begin a step; see `antiphon.engine.runner.Runner`."""
        with self.on_stream():
            for slot in plan.releases:
                del self._slots[slot]
            if plan.starts:
                self._model.start([self._started(start) for start in plan.starts])
            if plan.appends:
                self._append(plan.appends)
            if plan.blocks:
                self._model.give(plan.blocks)
            for group in self._groups(plan.prefills):
                self._prefill(group)
            return self._step(plan.decode_slots)

    @torch.inference_mode()
    def collect(self, launched: Sequence[_Launched], rows: Codes) -> StepOutput:
        """Judge a step's frames, one row each; a frame whose request has left counts as made."""
        frames: dict[int, Codes] = {}
        stopped, lengths, faults = set(), set(), set()
        for each, row in zip(launched, rows, strict=True):
            slot, codes, outcome = each.slot, row[:-1], int(row[-1])
            if outcome == FAULT:
                logger.error("slot %d: what was computed is no number; its request ends", slot)
                faults.add(slot)
            elif outcome == STOP:
                stopped.add(slot)
            else:
                frames[slot] = codes.copy()  # a view would keep all of the step's pinned memory
                if self._has_run_away(each, codes):
                    lengths.add(slot)
        return StepOutput(frames, frozenset(stopped), frozenset(lengths), frozenset(faults))

    def close(self) -> None:
        """Free what loading took."""
        self._slots.clear()
        self._model.graphs.clear()
        del self._model

    def _started(self, start: Start) -> SlotStart:
        """Take a request in on the host; return what the device has to know of it."""
        prompt, num_made = start.prompt.data, len(start.frames)
        assert isinstance(prompt, Qwen3TTSPrompt)
        assert prompt.num_prefilled < self._model.max_positions, "the prompter lets none so long by"
        made = np.stack(start.frames) if num_made else no_frames(self._config)
        state = _Slot(
            prompt,
            lead_frames(prompt, made),
            [*prompt.text],
            prompt.max_frames,
            prompt.is_open,
            num_made,
        )
        for code in made[:, 0].tolist():
            state.loop_detector.observe(code)
        self._slots[start.slot] = state
        num_before = 0 if self._is_exact else num_made  # exactly: all frames are replayed
        return SlotStart(
            slot=start.slot,
            seed=start.prompt.seed,
            talker_sampling=start.prompt.sampling,
            predictor_sampling=prompt.predictor_sampling,
            next_position=prompt.num_prefilled + num_before,
            next_frame=num_before,
            lead=state.lead[: prompt.num_reference_frames + num_before],
            made=made,
            text=prompt.text[prompt.num_reference_frames :],
        )

    def _append(self, appends: Sequence[Append]) -> None:
        """Put text after what slots have; the part beside frames to be made is the device's."""
        texts: list[tuple[int, int, Ids]] = []
        for append in appends:
            state, more = self._slots[append.slot], append.piece.data
            assert isinstance(more, MoreText)
            assert state.is_open, "text came after its end"
            ids, state.max_frames = more.ids, more.max_frames
            state.is_open = append.piece.num_frames_allowed is not None
            first_frame = len(state.text) - state.prompt.num_reference_frames
            state.text += ids
            texts.append((append.slot, max(0, first_frame), ids[max(0, -first_frame) :]))
        self._model.write_text(texts)

    def _prefill(self, prefills: Sequence[Prefill]) -> None:
        """Compute positions; those of frames as they were computed at first, if that is exact."""
        readings = []
        replays: dict[int, range] = {}
        for each in prefills:
            num_read = each.end
            if self._is_exact:
                num_read = min(each.end, self._slots[each.slot].prompt.num_prefilled)
                replays[each.slot] = range(max(each.start, num_read), each.end)
            if each.start < num_read:
                readings.append(self._reading(each.slot, each.start, num_read))
        if readings:
            self._model.read(readings, by_block=self._num_rows == 1)
        for number in range(max(map(len, replays.values()), default=0)):
            self._replay(
                {slot: each[number] for slot, each in replays.items() if number < len(each)}
            )

    def _reading(self, slot: int, start: int, end: int) -> Reading:
        """Return what is to be read."""
        state = self._slots[slot]
        prompt = state.prompt
        assert not state.is_open or len(state.text) >= end - len(prompt.prefix), (
            "its text is not known yet"
        )
        columns = columns_between(self._config, prompt, tuple(state.text), state.lead, start, end)
        return Reading(slot, start, columns, prompt.speaker)

    def _replay(self, positions: Mapping[int, int]) -> None:
        """Compute one position again in each slot, at which a frame of it was made."""
        frames = []
        for slot, position in positions.items():
            state = self._slots[slot]
            frames.append(state.lead[position - len(state.prompt.prefix)])
        self._model.replay([*positions], np.stack(frames), max(positions.values()) + 1)

    def _step(self, slots: Sequence[int]) -> _Step:
        """Launch one frame in each of ``slots``."""
        results, launched = [], []
        for group in self._groups(slots):
            for slot in group:
                state = self._slots[slot]
                state.num_frames += 1
                launched.append(_Launched(slot, state, state.num_frames))
            num_visible = max(self._slots[slot].num_positions for slot in group)
            results.append(self._model.step(group, min(num_visible, self._model.max_positions)))
        if not results:
            return _Step(self, (), None)
        download = Download(results[0] if len(results) == 1 else torch.cat(results))
        return _Step(self, launched, download)

    def _groups(self, items: Sequence[Item]) -> list[Sequence[Item]]:
        """Part what is computed together."""
        size = self._num_rows
        return [items[start : start + size] for start in range(0, len(items), size)]

    def _has_run_away(self, each: _Launched, codes: Codes) -> bool:
        """Whether a frame has to be its request's last."""
        state = each.state
        is_looping = state.loop_detector.observe(int(codes[0]))
        is_full = state.prompt.num_prefilled + each.number >= self._model.max_positions
        is_over = not state.is_open and each.number >= state.max_frames
        return is_looping or is_full or is_over
