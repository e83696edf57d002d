"""Decides who makes a frame and whose audio is decoded in the next step; knows no tensor."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import TypeAlias

from antiphon.engine.admission import Admission, AdmissionLimits, Lengths, forecast, live_capacity
from antiphon.engine.chunks import ChunkPlanner
from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import Append, CacheShape, CodecShape, Prefill, StepOutput, StepPlan
from antiphon.engine.request import EngineRequest, Status, slot_of
from antiphon.engine.scheduling_policy import PlaybackPolicy
from antiphon.engine.slot_allocator import SlotAllocator
from antiphon.engine.step_plan_builder import InFlightStep, StepPlanBuilder
from antiphon.models.base import Piece, Prompt
from antiphon.types import AudioChunk, Ended, FinishReason, FrameReady

EngineEvent: TypeAlias = FrameReady | AudioChunk | Ended
Events: TypeAlias = list[tuple[str, EngineEvent]]

_FORECAST_S = 0.1  # between two forecasts


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """What bounds the work of an engine.

    Attributes:
        max_unread_frames: that a listener may be behind.
        prefill_positions: of all prompts in one step, while others make frames.
        idle_prefill_positions: the same, while nobody does.
        admission: who is let in.
    """

    max_unread_frames: int = 128
    prefill_positions: int = 512
    idle_prefill_positions: int = 2048
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)


class Scheduler:
    """Continuous batching over slots and blocks, by the playback clock.

    A request waits for a slot, and for blocks if the runner's keys and values are paged; its prompt
    is computed, in parts if it is long; then each step makes a frame for it. It is left out of the
    steps, and keeps its slot, while its listener is behind or its text has not arrived. If blocks
    run out, whoever has most audio in hand loses its slot and comes back later: its frames are
    kept, its keys and values are computed again, and it goes on exactly.

    When its last frame is planned it drains: it gives up its blocks, and its slot as soon as its
    last audio is planned too. What is given up is used again in later plans only, and a device
    carries out plans in order.

    See `PlaybackPolicy` for whom a step serves, and `Admission` for who is let in.

    Attributes:
        limits: what bounds the work.
        times: of steps; whoever drives the scheduler tells it what it measures.
        admission: who is let in.
        num_live: requests here that somebody listens to.
    """

    def __init__(
        self,
        num_slots: int,
        *,
        cache: CacheShape | None = None,
        codec: CodecShape | None = None,
        limits: SchedulerLimits | None = None,
        policy: PlaybackPolicy | None = None,
        times: CostModel | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or SchedulerLimits()
        self.times = times or CostModel()
        self.admission = Admission(num_slots, self.limits.admission)
        self._num_slots = num_slots
        self._codec = codec
        self._clock = clock
        self._policy = policy or PlaybackPolicy()
        self._places = SlotAllocator(num_slots, cache, codec)
        self._chunks = ChunkPlanner(codec, self._policy, self.times) if codec else None
        self._lengths = Lengths()
        self._next_forecast_s = -inf
        self._with_pieces: dict[str, EngineRequest] = {}
        self._by_id: dict[str, EngineRequest] = {}
        self.num_live = 0
        self._under_way: deque[InFlightStep] = deque()

    def check(self, prompt: Prompt, *, is_live: bool = True) -> None:
        """Refuse what `add` would refuse; in any thread.

        Raises:
            InvalidRequestError: there is no room for it, even alone.
            OverloadedError: too many are here already.
        """
        if self._places.tables:
            self._places.tables.max_frames(prompt)
        num_open = self.num_live if is_live else len(self._by_id) - self.num_live
        self.admission.check(num_open, self._clock(), is_live=is_live)

    def add(self, request: EngineRequest) -> None:
        """Queue a request.

        Raises:
            InvalidRequestError: there is no room for it, even alone.
            OverloadedError: too many are here already.
        """
        assert request.id not in self._by_id, f"{request.id} is already here"
        self.check(request.prompt, is_live=request.is_live)
        request.arrived_s = self._clock()
        if self._chunks:
            self._chunks.enter(request)
        self._places.enter(request)
        self._by_id[request.id] = request
        self.num_live += request.is_live
        self._update_bound(request)

    def read(self, request_id: str, num_frames: int = 1) -> None:
        """Note that the listener's side has taken frames, or audio of as many."""
        if (request := self._by_id.get(request_id)) is not None:
            request.num_frames_read += num_frames
            self._update_bound(request)

    def append(self, request_id: str, piece: Piece) -> None:
        """Give a request more text."""
        if (request := self._by_id.get(request_id)) is not None:
            request.pieces.append(piece)
            request.num_frames_allowed = piece.num_frames_allowed
            if request.slot is not None:
                self._with_pieces[request_id] = request
            self._update_bound(request)

    def abort(self, request_id: str) -> bool:
        """Drop a request wherever it is; return whether it was still here."""
        request = self._by_id.get(request_id)
        if request is None:
            return False
        self._end(request)
        return True

    @property
    def open_ids(self) -> tuple[str, ...]:
        """Requests that have not ended."""
        return tuple(self._by_id)

    @property
    def has_work(self) -> bool:
        """Whether there may be something to plan; the plan can turn out empty all the same."""
        places = self._places
        return bool(
            places.releases
            or places.draining
            or places.prefilling
            or places.may_start
            or self._with_pieces
            or any(each.may_run for each in places.running.values())
            or (self._chunks and self._chunks.is_any_due(places.running.values()))
        )

    def schedule(self) -> StepPlan:
        """Plan one step; it may turn out empty."""
        draft = StepPlanBuilder(self._clock(), self._places.releases)
        self._places.releases = []
        if self._places.tables:
            self._places.tables.publish()
        draft.rows = self._places.with_blocks(self._chosen_rows(draft.now_s), draft)
        self._places.start_waiting(draft)
        self._prefill(draft)
        self._append(draft)
        for request in draft.rows:
            request.num_frames_planned += 1
            request.num_in_flight += 1
            request.num_steps_left_out = 0
        self._decode(draft)
        plan = draft.plan()
        self._drain(draft)
        if draft.rows or draft.decoding:
            self._under_way.append(InFlightStep(draft.rows, draft.decoding))
        if draft.now_s >= self._next_forecast_s:
            self._forecast(draft.now_s)
        return plan

    def update(self, plan: StepPlan, output: StepOutput) -> Events:
        """Take a step's result in; return what each request is to be told.

        Steps are updated in the order in which they were scheduled, though more may have been
        scheduled in between. A request that has ended in the meantime is told nothing.
        """
        events: Events = []
        if not (plan.decode_slots or plan.codec_chunks):
            return events
        under_way = self._under_way.popleft()
        self._take_frames(plan, output, under_way.rows, events)
        if plan.codec_chunks:
            self._take_chunks(plan, output, under_way.decoding, events)
        return events

    def check_integrity(self) -> None:
        """Assert that every slot and block is free or held by live requests, none is lost."""
        places = self._places
        places.check_integrity()
        for each in (*places.waiting.in_order(), *places.running.values()):
            assert self._by_id[each.id] is each, "somebody who has ended is still here"
        num_drained = sum(each.status is Status.DRAINED for each in self._by_id.values())
        num_placed = len(places.waiting) + len(places.running) + len(places.draining)
        assert len(self._by_id) == num_placed + num_drained, "somebody is nowhere"
        assert self.num_live == sum(each.is_live for each in self._by_id.values())

    def _chosen_rows(self, now_s: float) -> Sequence[EngineRequest]:
        """Choose who makes a frame, of those that are computed up to it."""
        ready = [
            each
            for each in self._places.running.values()
            if each.num_frames_planned < each.frames_bound
            and each.num_positions_planned >= each.num_positions_needed
        ]
        if self._codec is None:
            return ready
        is_due = self._policy.may_leave_out(self._codec, self.times, self._places.free_share) and (
            self._places.waiting.num_live > 0
            or any(each.is_live for each in self._places.prefilling)
            or any(each.num_frames_decoded == 0 and each.is_live for each in ready)
        )
        rows = self._policy.rows_to_run(ready, self.times, now_s, is_first_sound_due=is_due)
        if len(rows) < len(ready):
            for each in ready:
                each.num_steps_left_out += 1
        return rows

    def _prefill(self, draft: StepPlanBuilder) -> None:
        """Compute prompts, listeners' first; whoever is complete makes its first frame too."""
        tables, prefilling = self._places.tables, self._places.prefilling
        if tables is None or not prefilling:
            return
        limits = self.limits
        num_left = limits.prefill_positions if draft.rows else limits.idle_prefill_positions
        num_left = max(num_left, tables.block_positions)
        num_replayed_left = tables.max_replayed
        for request in sorted(prefilling, key=lambda each: not each.is_live):
            start = request.num_positions_planned
            end = tables.part_end(request, num_left, num_replayed_left)
            if end <= start:
                continue
            draft.prefills.append(Prefill(slot_of(request), start, end))
            tables.prefill(request, end - start)
            num_left -= end - start
            num_replayed_left -= max(0, end - max(start, request.prompt.num_positions))
            if request.is_prefilled:
                prefilling.remove(request)
                if request.may_run:
                    draft.rows.append(request)

    def _append(self, draft: StepPlanBuilder) -> None:
        """Hand on text that has arrived, and to those who start all of it."""
        started = [self._places.running.get(start.slot) for start in draft.starts]
        for request in (*started, *self._with_pieces.values()):
            if request is None or request.slot is None:
                continue
            for piece in request.pieces[request.num_pieces_planned :]:
                draft.appends.append(Append(request.slot, piece))
            request.num_pieces_planned = len(request.pieces)
        self._with_pieces.clear()  # who holds no slot is told all when it starts

    def _decode(self, draft: StepPlanBuilder) -> None:
        if self._chunks is None:
            return
        rate = sum([1 / each.chunk_frames for each in draft.rows])
        requests = chain(self._places.running.values(), self._places.draining.values())
        for request, decode in self._chunks.plan(requests, rate, draft.now_s):
            draft.codec_chunks.append(decode)
            draft.decoding.append(request)
            self._update_bound(request)

    def _drain(self, draft: StepPlanBuilder) -> None:
        """Let those go of whom nothing is left to plan."""
        for request in draft.rows:
            if request.num_frames_planned == request.frames_limit:
                self._places.drain(request)
        for request in tuple(self._places.draining.values()):
            if self._is_all_planned(request):
                self._places.leave(request, Status.DRAINED)

    def _is_all_planned(self, request: EngineRequest) -> bool:
        return self._chunks is None or request.num_frames_decoded >= request.num_frames_planned

    def _take_frames(
        self,
        plan: StepPlan,
        output: StepOutput,
        rows: Sequence[EngineRequest],
        events: Events,
    ) -> None:
        for slot, request in zip(plan.decode_slots, rows, strict=True):
            request.num_in_flight -= 1
            if request.reason is not None or request.status is Status.ENDED:
                continue  # a frame too many
            if slot in output.stopped:
                self._finish(request, "stop", events)
            elif slot in output.faults:
                self._finish(request, "error", events)
            else:
                request.num_frames += 1
                request.frames.append(frame := output.frames[slot])
                if self._chunks is None:
                    events.append((request.id, FrameReady(frame)))
                if request.num_frames == request.frames_limit or slot in output.lengths:
                    self._finish(request, "length", events)

    def _take_chunks(
        self,
        plan: StepPlan,
        output: StepOutput,
        decoding: Sequence[EngineRequest],
        events: Events,
    ) -> None:
        assert self._chunks is not None
        now_s = self._clock()
        for decode, request in zip(plan.codec_chunks, decoding, strict=True):
            request.num_in_flight -= 1
            if request.status is Status.ENDED:
                continue
            chunk = self._chunks.cut(request, decode, output.chunks[decode.slot], now_s)
            if chunk is not None:
                events.append((request.id, chunk))
            if request.is_all_heard:
                self._end_with_event(request, events)

    def _finish(self, request: EngineRequest, reason: FinishReason, events: Events) -> None:
        """Note why a request ends; its audio may still have to be made."""
        request.reason = reason
        request.num_frames_planned, request.frames_bound = request.num_frames, 0
        if reason != "error":
            self._lengths.observe(request.prompt, request.num_frames)
        elif self._places.tables:
            self._places.tables.distrust(request)
        if reason == "error" or self._chunks is None or request.is_all_heard:
            self._end_with_event(request, events)
        elif self._is_all_planned(request):
            self._places.leave(request, Status.DRAINED)
        elif request.status is Status.RUNNING:
            self._places.drain(request)

    def _end_with_event(self, request: EngineRequest, events: Events) -> None:
        assert request.reason is not None
        events.append((request.id, Ended(request.reason)))
        self._end(request)

    def _end(self, request: EngineRequest) -> None:
        self._places.leave(request, Status.ENDED)
        self._with_pieces.pop(request.id, None)
        del self._by_id[request.id]
        self.num_live -= request.is_live

    def _update_bound(self, request: EngineRequest) -> None:
        if request.reason is None and request.status in (Status.WAITING, Status.RUNNING):
            request.update_bound(self.limits.max_unread_frames, has_codec=self._chunks is not None)

    def _forecast(self, now_s: float) -> None:
        """Tell the door how many there is room for, and when places will be free."""
        self._next_forecast_s = now_s + _FORECAST_S
        times, places = self.times, self._places
        if not times.is_trusted:
            return
        num_streams = self._num_slots
        if self._codec and self.num_live:
            max_load = self.limits.admission.max_load
            num_streams = live_capacity(times, self._codec, self._num_slots, max_load)
        places.max_running = num_streams
        num_kept = places.num_bulk_kept
        num_streams = min(self._num_slots - num_kept, max(1, num_streams - num_kept))
        holders = chain(places.running.values(), places.draining.values())
        self.admission.forecast = forecast(
            holders, num_streams, self._lengths, times.mean_step_s, now_s
        )
