"""Step planning: the requests that make a frame, and those whose frames are decoded."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from antiphon.contracts.engine_limits import AdmissionLimits, PlaybackPolicy
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, FinishReason, FrameReady, Latents
from antiphon.engine.admission import AdmissionControl, Forecast, LengthEstimator, live_capacity
from antiphon.engine.batched_chunks import BatchedChunks
from antiphon.engine.chunk_planner import CausalChunks, ChunkPlanner, ElasticChunks, LookAheadChunks
from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import Append, CacheShape, CodecShape, StepOutput, StepPlan
from antiphon.engine.prefill import plan_prefills
from antiphon.engine.request import EngineRequest, Status
from antiphon.engine.slot_allocator import SlotAllocator, StepPlanBuilder
from antiphon.telemetry.stage_status import EngineStats

EngineEvent: TypeAlias = FrameReady | AudioChunk | Latents | Ended
Events: TypeAlias = list[tuple[str, EngineEvent]]

_FORECAST_S = 0.1  # between two forecasts
REPLAY_FRAMES = 16  # that decoders of resumed requests decode again in one step


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """Limits of an engine's work.

    Attributes:
        max_unread_frames: frames that a consumer may be behind.
        max_prefill_positions: prompt positions of a step beside the frames of others.
    """

    max_unread_frames: int = 128
    max_prefill_positions: int = 4096
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)


class Scheduler:
    """Continuous batching over slots and blocks, by the playback clock.

    A request waits for a slot, and for blocks if the runner has a paged KV cache. Its prompt is
    prefilled, in parts if it is long; then each step makes a frame for it. While its consumer is
    behind, or its text has not arrived, it keeps its slot and makes no frame. If blocks run out,
    the request with the most buffered audio is preempted: its frames are kept, its keys and values
    are computed again later, and it continues exactly.

    A request drains once its last frame is planned: it frees its blocks, and its slot as soon as
    its last codec chunk is planned too. Freed slots and blocks are used again in later plans only,
    and a device executes plans in order.

    `ChunkPlanner` plans the codec chunks of a step, `AdmissionControl` admits requests.
    """

    def __init__(
        self,
        num_slots: int,
        *,
        cache: CacheShape | None = None,
        codec: CodecShape | None = None,
        limits: SchedulerLimits | None = None,
        policy: PlaybackPolicy | None = None,
        costs: CostModel | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or SchedulerLimits()
        self.costs = costs or CostModel()
        self.admission = AdmissionControl(num_slots, self.limits.admission)
        self.num_live = 0
        self._num_slots = num_slots
        policy = policy or PlaybackPolicy()
        self._codec = codec = codec and codec.up_to(policy.largest_frames)
        self._has_upstream = codec is not None and codec.has_upstream
        self._clock = clock
        self.stats = EngineStats()
        self._slots = SlotAllocator(num_slots, cache, codec, self.stats)
        self._chunks = _chunk_planner(codec, policy, self.costs) if codec else None
        self._lengths = LengthEstimator()
        self._next_forecast_s = -inf
        self._with_pieces: dict[str, EngineRequest] = {}
        self._by_id: dict[str, EngineRequest] = {}
        # Rows and decoded requests of the steps that are planned and not yet updated.
        self._in_flight: deque[tuple[list[EngineRequest], list[EngineRequest]]] = deque()

    def check(self, prompt: Prompt, *, is_live: bool = True, is_admitted: bool = False) -> None:
        """Refuse what `add` would refuse; in any thread.

        Raises:
            InvalidRequestError: it needs more blocks than there are.
            OverloadedError: there are too many open requests.
        """
        if self._slots.blocks:
            self._slots.blocks.max_frames(prompt)
        if not is_admitted:
            self._admit(is_live=is_live)

    def reserve(self, stream_id: str, *, is_live: bool = True) -> None:
        """Keep room for a stream as `AdmissionControl.reserved`; in any thread, as `check`."""
        self._admit(is_live=is_live)
        self.admission.reserved.add(stream_id, is_live=is_live)

    def add(self, request: EngineRequest) -> None:
        """Queue a request, or refuse it as `check` does."""
        assert request.id not in self._by_id, f"{request.id} is already here"
        self.check(request.prompt, is_live=request.is_live, is_admitted=request.is_admitted)
        has_codec = self._chunks is not None and request.prompt.is_decoded
        if self._chunks and has_codec:
            self._chunks.add(request)
        if self._slots.blocks:
            self._slots.blocks.add(request)
        request.arrive(self._clock(), self.limits.max_unread_frames, has_codec=has_codec)
        self._slots.waiting.add(request)
        self._by_id[request.id] = request
        self.num_live += request.is_live
        self.admission.queue.num_queued += request.is_live

    def append(self, request_id: str, piece: Piece) -> None:
        """Add text to a request, or a frame from the stage before."""
        if (request := self._by_id.get(request_id)) is not None:
            if self._chunks and self._has_upstream:
                self._chunks.receive(request, self._clock())
            else:
                self.stats.text_waits += request.is_text_used_up and request.num_frames_planned > 0
            request.append(piece)
            if request.slot is not None:
                self._with_pieces[request_id] = request

    def abort(self, request_id: str) -> bool:
        """Drop a request wherever it is; return whether it was still open."""
        if is_open := request_id in self._by_id:
            self._end(self._by_id[request_id])
        return is_open

    @property
    def has_work(self) -> bool:
        """Whether there may be something to plan; the plan may still be empty."""
        slots = self._slots
        if slots.may_start or slots.releases or slots.draining or slots.prefilling:
            return True
        running = slots.running.values()
        is_ready = any(request.may_run or request.codec.is_replaying for request in running)
        return bool(self._with_pieces) or is_ready or self.idle_s() == 0.0

    @property
    def has_prompts(self) -> bool:
        """Whether the next plan may have prompts, which take longer to launch."""
        return bool(self._slots.prefilling or self._slots.may_start)

    def idle_s(self) -> float | None:
        """Return the time until running requests need a chunk, if none of them makes a frame.

        ``None``: nothing is due until a command arrives.
        """
        if self._chunks is None:
            return None
        due_s = self._chunks.next_due_s(_decoded(self._slots.running.values()))
        return None if due_s == inf else max(due_s - self._clock(), 0.0)

    @property
    def waits_for_readers(self) -> bool:
        """Whether a consumer is too far behind for another frame of its request."""
        return any(request.is_unread for request in self._by_id.values())

    def schedule(self) -> StepPlan:
        """Plan one step; the plan may be empty."""
        slots = self._slots
        builder = StepPlanBuilder(self._clock(), slots.take_releases())
        if slots.blocks:
            slots.blocks.cache_written()
        ready = [
            request
            for request in slots.running.values()
            if request.num_frames_planned < request.planning_limit and request.table.is_prefilled
        ]
        builder.rows = slots.append_blocks(ready, builder)
        slots.start_waiting(builder)
        max_positions = self.limits.max_prefill_positions
        plan_prefills(builder, slots, max_positions, self.costs, self.stats)
        self._append(builder)
        for request in builder.rows:
            request.plan_frame()
        self._decode(builder)
        plan = builder.build()
        self.admission.queue.observe(slots.num_live_queued, builder.now_s)
        self._drain(builder)
        if builder.rows or builder.decoding:
            self._in_flight.append((builder.rows, builder.decoding))
        if builder.now_s >= self._next_forecast_s:
            self._forecast(builder.now_s)
        return plan

    def update(self, plan: StepPlan, output: StepOutput) -> Events:
        """Update requests with the results of a step; return their events.

        Steps are updated in the order in which they were scheduled; others may have been scheduled
        in between. A request that has ended in the meantime has no events.
        """
        events: Events = []
        if not (plan.decode_slots or plan.codec_chunks):
            return events
        rows, decoding = self._in_flight.popleft()
        if not self._has_upstream:  # else they are counted where they are made
            self.stats.frames += len(output.frames)
        self._take_frames(plan, output, rows, events)
        if plan.codec_chunks:
            self._take_chunks(plan, output, decoding, events)
        return events

    def snapshot(self) -> EngineStats:
        stats, slots = self.stats, self._slots
        stats.requests_running = len(slots.running) + len(slots.draining)
        stats.requests_waiting = len(slots.waiting)
        if not self._has_upstream:
            stats.requests_out_of_text = sum(
                request.is_text_used_up for request in slots.running.values()
            )
        if slots.blocks:
            stats.kv_blocks = slots.blocks.pool.num_blocks
            stats.kv_cache_usage = slots.blocks.pool.usage
        return stats.snapshot()

    def check_integrity(self) -> None:
        """Assert that every slot and block is free or held by an open request."""
        slots = self._slots
        slots.check_integrity()
        for request in (*slots.waiting.in_order(), *slots.running.values()):
            assert self._by_id[request.id] is request, "a request that has ended is still here"
        num_drained = sum(request.status is Status.DRAINED for request in self._by_id.values())
        num_known = len(slots.waiting) + len(slots.running) + len(slots.draining) + num_drained
        assert len(self._by_id) == num_known, "an open request is lost"
        assert self.num_live == sum(request.is_live for request in self._by_id.values())

    def _admit(self, *, is_live: bool) -> None:
        num_open = self.num_live if is_live else len(self._by_id) - self.num_live
        self.admission.check(num_open, self._clock(), is_live=is_live)

    def _append(self, builder: StepPlanBuilder) -> None:
        """Plan the text that has arrived; a request that starts gets all of it."""
        started = [self._slots.running.get(start.slot) for start in builder.starts]
        for request in (*started, *self._with_pieces.values()):
            if request is not None and request.slot is not None:
                pieces = request.take_pieces()
                builder.appends += [Append(request.slot, piece) for piece in pieces]
        self._with_pieces.clear()

    def _decode(self, builder: StepPlanBuilder) -> None:
        if self._chunks is None:
            return
        requests = _decoded(self._slots.holders())
        builder.codec_replays += self._chunks.replay(requests, REPLAY_FRAMES)
        for request, chunk in self._chunks.plan(requests, len(builder.rows), builder.now_s):
            builder.codec_chunks.append(chunk)
            builder.decoding.append(request)

    def _drain(self, builder: StepPlanBuilder) -> None:
        """Free the slots and blocks that are not needed after this plan."""
        for request in builder.rows:
            if request.num_frames_planned == request.max_frames:
                self._slots.drain(request)
        for request in tuple(self._slots.draining.values()):
            if request.is_all_planned:
                self._slots.free(request, Status.DRAINED)

    def _take_frames(
        self, plan: StepPlan, output: StepOutput, rows: Sequence[EngineRequest], events: Events
    ) -> None:
        frames, lengths = output.frames, output.lengths
        for slot, request in zip(plan.decode_slots, rows, strict=True):
            request.num_in_flight -= 1
            if request.finish_reason is not None or request.status is Status.ENDED:
                continue  # its end became known after this step was planned
            if slot in output.hidden_states:
                events.append((request.id, Latents(output.hidden_states[slot])))
            if slot not in frames:
                self._finish(request, "stop" if slot in output.stopped else "error", events)
                continue
            made, frame = request.frames, frames[slot]
            made.append(frame)
            if not request.has_codec:
                events.append((request.id, FrameReady(frame)))
            if len(made) == request.max_frames or slot in lengths:
                self._finish(request, "length", events)

    def _take_chunks(
        self, plan: StepPlan, output: StepOutput, decoding: Sequence[EngineRequest], events: Events
    ) -> None:
        assert self._chunks is not None
        now_s = self._clock()
        for chunk, request in zip(plan.codec_chunks, decoding, strict=True):
            request.num_in_flight -= 1
            if request.status is Status.ENDED:
                continue
            audio = self._chunks.deliver(request, chunk, output.chunks[chunk.slot], now_s)
            if audio is not None:
                events.append((request.id, audio))
            if request.is_delivered:
                self._end_with_event(request, events)

    def _finish(self, request: EngineRequest, reason: FinishReason, events: Events) -> None:
        """Record the reason of a request's end; its last frames may still have to be decoded."""
        request.finish(reason)
        if reason != "error":
            self._lengths.observe(request.prompt, request.num_frames)
        elif self._slots.blocks:
            self._slots.blocks.pool.invalidate(request.table.hashes.all)  # one may be the cause
        if reason == "error" or request.is_delivered:
            self._end_with_event(request, events)
        elif request.is_all_planned:
            self._slots.free(request, Status.DRAINED)
        elif request.status is Status.RUNNING:
            self._slots.drain(request)

    def _end_with_event(self, request: EngineRequest, events: Events) -> None:
        assert request.finish_reason is not None
        events.append((request.id, Ended(request.finish_reason)))
        self._end(request)

    def _end(self, request: EngineRequest) -> None:
        self.admission.queue.num_queued -= self._slots.is_queued(request)
        self._slots.free(request, Status.ENDED)
        self._with_pieces.pop(request.id, None)
        del self._by_id[request.id]
        self.num_live -= request.is_live

    def _forecast(self, now_s: float) -> None:
        """Update the capacity in streams, and when running requests should end."""
        self._next_forecast_s = now_s + _FORECAST_S
        costs, slots = self.costs, self._slots
        if not costs.is_trusted:
            return
        num_streams = self._num_slots
        if self._codec and self.num_live:
            max_load = self.limits.admission.max_load
            num_streams = live_capacity(costs, self._codec, self._num_slots, max_load)
        slots.max_running = num_streams
        num_reserved = min(slots.num_offline, slots.offline_share)
        num_streams = min(self._num_slots - num_reserved, max(1, num_streams - num_reserved))
        step_s = costs.mean_frame_s
        lefts = (self._lengths.num_frames_left(request) for request in slots.holders())
        ends_s = sorted(now_s + num_frames * step_s for num_frames in lefts)
        self.admission.expect(Forecast(num_streams, tuple(ends_s), now_s, step_s))


def _chunk_planner(codec: CodecShape, policy: PlaybackPolicy, costs: CostModel) -> ChunkPlanner:
    if codec.is_causal:
        return CausalChunks(codec, policy, costs)
    if codec.is_elastic:
        return ElasticChunks(codec, policy, costs)
    return (BatchedChunks if codec.batch_chunks > 1 else LookAheadChunks)(codec, policy, costs)


def _decoded(requests: Iterable[EngineRequest]) -> list[EngineRequest]:
    return [request for request in requests if request.has_codec]
