"""Slot allocation: queue, requests in slots, preemption, and the step plan that they fill."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from math import inf

from antiphon.engine.block_manager import BlockManager
from antiphon.engine.plan import (
    Append,
    BlockCopy,
    CacheShape,
    CodecChunk,
    CodecReplay,
    CodecShape,
    Prefill,
    Start,
    StepPlan,
)
from antiphon.engine.request import EngineRequest, Status, slot_of
from antiphon.telemetry.stage_status import EngineStats

_OFFLINE_SHARE = 8  # one slot in so many is reserved for offline requests
_MAX_OFFLINE_WAIT_S = 5.0  # after which an offline request may claim that share


@dataclass(slots=True)
class StepPlanBuilder:
    """A `StepPlan` in the making.

    Attributes:
        now_s: time at which planning began.
        copies: block copies by target slot.
        decoding: requests of ``codec_chunks``, in the same order.
    """

    now_s: float
    releases: list[int] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    appends: list[Append] = field(default_factory=list)
    blocks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    copies: dict[int, BlockCopy] = field(default_factory=dict)
    prefills: list[Prefill] = field(default_factory=list)
    rows: list[EngineRequest] = field(default_factory=list)
    codec_chunks: list[CodecChunk] = field(default_factory=list)
    codec_replays: list[CodecReplay] = field(default_factory=list)
    decoding: list[EngineRequest] = field(default_factory=list)

    def drop(self, request: EngineRequest) -> None:
        """Remove a request that was to make a frame."""
        self.blocks.pop(slot_of(request), None)
        self.copies.pop(slot_of(request), None)
        if request in self.rows:
            self.rows.remove(request)

    def build(self) -> StepPlan:
        return StepPlan(
            tuple(self.releases),
            tuple(self.starts),
            tuple(self.appends),
            self.blocks,
            tuple(self.prefills),
            tuple([slot_of(request) for request in self.rows]),
            tuple(self.codec_chunks),
            tuple(self.codec_replays),
            tuple(self.copies.values()),
        )


class RequestQueue:
    """Requests that wait for a slot: live ones before offline ones, each in order of arrival."""

    def __init__(self) -> None:
        self.live: deque[EngineRequest] = deque()
        self.offline: deque[EngineRequest] = deque()

    def __len__(self) -> int:
        return len(self.live) + len(self.offline)

    def add(self, request: EngineRequest) -> None:
        """Add a new request behind all others of its priority.

        One that was begun elsewhere goes before all that were not, by its deadline.
        """
        queue, deadline_s = self._queue_of(request), request.clock.deadline_s
        if not request.frames:
            queue.append(request)
            return
        begun = takewhile(lambda request: request.frames, queue)
        queue.insert(sum(other.clock.deadline_s <= deadline_s for other in begun), request)

    def add_preempted(self, request: EngineRequest) -> None:
        """Add a request that lost its slot before all others of its priority."""
        self._queue_of(request).appendleft(request)

    def remove(self, request: EngineRequest) -> None:
        self._queue_of(request).remove(request)

    def in_order(self, *, is_offline_first: bool = False) -> Iterator[EngineRequest]:
        """Yield live requests, then offline ones, the first of which may go before all."""
        num_first = int(is_offline_first)
        offline_first = islice(self.offline, num_first)
        return chain(offline_first, self.live, islice(self.offline, num_first, None))

    def _queue_of(self, request: EngineRequest) -> deque[EngineRequest]:
        return self.live if request.is_live else self.offline


class SlotAllocator:
    """Allocates slots and blocks to requests, and frees them.

    Attributes:
        draining: draining requests by slot; their last frames are planned, they hold no blocks.
        prefilling: running requests whose prompts are not computed yet, in order of their starts.
        releases: slots that were freed since the last plan.
        max_running: limit of running requests, at most the number of slots.
        offline_share: slots of running offline requests that are not preempted for live ones.
        blocks: manager of the KV blocks; ``None``: the runner needs none.
    """

    def __init__(
        self, num_slots: int, cache: CacheShape | None, codec: CodecShape | None, stats: EngineStats
    ) -> None:
        self.waiting = RequestQueue()
        self.running: dict[int, EngineRequest] = {}
        self.draining: dict[int, EngineRequest] = {}
        self.prefilling: list[EngineRequest] = []
        self.max_running = num_slots
        self.blocks = BlockManager(cache, stats) if cache else None
        self._stats = stats
        self._num_slots = num_slots
        self.offline_share = max(1, num_slots // _OFFLINE_SHARE)
        self._frame_s = codec.frame_s if codec else 0.0
        self._free_slots = deque(range(num_slots))
        self.releases: list[int] = []
        self._without_text: list[EngineRequest] = []

    @property
    def num_offline(self) -> int:
        return sum(not request.is_live for request in self.running.values())

    @property
    def num_live_queued(self) -> int:
        """Live requests that wait for a slot, or for the prefill of their prompt."""
        return len(self.waiting.live) + sum([request.is_live for request in self.prefilling])

    def is_queued(self, request: EngineRequest) -> bool:
        """Whether a request is one of `num_live_queued`."""
        is_waiting = request.status is Status.WAITING or request in self.prefilling
        return request.is_live and is_waiting

    @property
    def may_start(self) -> bool:
        """Whether a request waits and could get a slot, by preemption if need be."""
        return bool(self.waiting) and bool(self._free_slots or self.waiting.live)

    def holders(self) -> Iterator[EngineRequest]:
        return chain(self.running.values(), self.draining.values())

    def take_releases(self) -> list[int]:
        """Return the slots that were freed since the last plan."""
        releases, self.releases = self.releases, []
        return releases

    def append_blocks(
        self, rows: Sequence[EngineRequest], builder: StepPlanBuilder
    ) -> list[EngineRequest]:
        """Allocate blocks for the next frames of ``rows``; return the rows not preempted."""
        rows = list(rows)
        if self.blocks is None:
            return rows
        short = [
            request
            for request in rows
            if request.num_frames_planned >= request.table.frames_capacity
        ]
        while len(short) > self.blocks.pool.num_available:
            victim = self._victim(self.running.values())
            assert victim is not None, "no request holds blocks, and there are none"
            self._preempt(victim, builder)
            rows, short = ([each for each in part if each is not victim] for part in (rows, short))
        for request in short:
            builder.blocks[slot_of(request)] = (self.blocks.append_block(request),)
        return rows

    def start_waiting(self, builder: StepPlanBuilder) -> None:
        """Start requests in the order of the queue; one that needs many blocks is not overtaken."""
        self._allocate_for_late_text(builder)
        while self.may_start:
            queue = self.waiting.in_order(is_offline_first=self._is_offline_due(builder.now_s))
            request = next((request for request in queue if request.may_start), None)
            if request is None or not self._ensure_slot(request, builder):
                return
            if not self._ensure_blocks(request, builder):
                return
            self.waiting.remove(request)
            self._start(request, builder)

    def drain(self, request: EngineRequest) -> None:
        """Free all but the slot of a running request whose last frame is planned."""
        slot = slot_of(request)
        self.draining[slot] = self.running.pop(slot)
        self._free_blocks(request)
        request.drain()

    def free(self, request: EngineRequest, status: Status) -> None:
        """Free all that a request holds, or remove it from the queue."""
        if request.slot is not None:
            self.running.pop(request.slot, None)
            self.draining.pop(request.slot, None)
            self._free_slots.append(request.slot)
            self.releases.append(request.slot)
            self._free_blocks(request)
        elif request.status is Status.WAITING:
            self.waiting.remove(request)
        request.leave(status)

    def check_integrity(self) -> None:
        """Assert that every slot and block is either free or held by a known request."""
        holders = {**self.running, **self.draining}
        assert len(holders) == len(self.running) + len(self.draining), "a slot is held twice"
        assert sorted([*self._free_slots, *holders]) == list(range(self._num_slots))
        assert all(request.slot == slot for slot, request in holders.items())
        assert all(request.status is Status.RUNNING for request in self.running.values())
        assert all(request.status is Status.DRAINING for request in self.draining.values())
        for request in (*self.waiting.in_order(), *self.draining.values()):
            assert not request.table.blocks, "a request that makes no frame holds blocks"
        assert all(request.status is Status.RUNNING for request in self.prefilling)
        if self.blocks:
            tables = [request.table.blocks for request in self.running.values()]
            self.blocks.pool.check_integrity(tables)

    def _start(self, request: EngineRequest, builder: StepPlanBuilder) -> None:
        slot = self._free_slots.popleft()
        num_decoded = min(request.codec.num_decoded, request.num_frames)
        builder.starts.append(Start(slot, request.prompt, tuple(request.frames), num_decoded))
        request.start(slot, num_decoded if request.has_codec else 0)
        if request.status is Status.DRAINING:
            self.draining[slot] = request
            return
        self.running[slot] = request
        if request.has_text:
            self._allocate_blocks(request, builder)
        elif self.blocks:
            self._without_text.append(request)

    def _allocate_blocks(self, request: EngineRequest, builder: StepPlanBuilder) -> None:
        if self.blocks:
            copy = self.blocks.allocate(request)
            if copy is not None:
                builder.copies[slot_of(request)] = copy
            builder.blocks[slot_of(request)] = tuple(request.table.blocks)
        if not request.table.is_prefilled:
            self.prefilling.append(request)
        elif request.may_run:
            builder.rows.append(request)

    def _allocate_for_late_text(self, builder: StepPlanBuilder) -> None:
        """Allocate blocks for requests that got their slots before they had any text."""
        for request in tuple(self._without_text):
            if request.status is not Status.RUNNING or request.table.blocks:
                self._without_text.remove(request)
            elif request.has_text and self._ensure_blocks(request, builder):
                self._without_text.remove(request)
                self._allocate_blocks(request, builder)

    def _is_offline_due(self, now_s: float) -> bool:
        offline = self.waiting.offline
        is_overdue = bool(offline) and now_s - offline[0].arrived_s >= _MAX_OFFLINE_WAIT_S
        return is_overdue and self.num_offline < self.offline_share

    def _ensure_slot(self, request: EngineRequest, builder: StepPlanBuilder) -> bool:
        """Ensure a free slot; a live request preempts an offline one beyond their share."""
        if self._free_slots and self._may_run(request):
            return True
        if not request.is_live or self.num_offline <= self.offline_share:
            return False
        offline = (other for other in self.running.values() if not other.is_live)
        self._preempt(min(offline, key=lambda other: other.num_frames), builder)
        return self._may_run(request)

    def _may_run(self, request: EngineRequest) -> bool:
        """Whether one more may run; the first live request always may."""
        num_running = len(self.running)
        if num_running < self.max_running:
            return True
        return request.is_live and num_running == self.num_offline

    def _ensure_blocks(self, request: EngineRequest, builder: StepPlanBuilder) -> bool:
        """Ensure the blocks that a request starts with, and one more for each row of the step."""
        if self.blocks is None or request.finish_reason is not None or not request.has_text:
            return True
        while self.blocks.num_missing(request) + len(builder.rows) > self.blocks.pool.num_available:
            idle = self._victim(other for other in self.running.values() if other.is_idle)
            if idle is None:
                return False
            self._preempt(idle, builder)
        return True

    def _victim(self, requests: Iterable[EngineRequest]) -> EngineRequest | None:
        """Return the request to preempt: idle, or offline, or with the most audio buffered."""

        def patience(request: EngineRequest) -> tuple[bool, bool, float, float]:
            deadline_s = 0.0
            if request.clock.deadline_s < inf:
                undecoded_s = request.num_frames_undecoded * self._frame_s
                deadline_s = request.clock.deadline_s + undecoded_s
            return request.is_idle, not request.is_live, deadline_s, request.arrived_s

        holders = (request for request in requests if request.table.blocks)
        return max(holders, key=patience, default=None)

    def _preempt(self, request: EngineRequest, builder: StepPlanBuilder) -> None:
        """Free a request's slot and blocks, and queue it again."""
        slot = slot_of(request)
        assert all(start.slot != slot for start in builder.starts), "it has only just started"
        builder.drop(request)
        builder.releases.append(slot)
        del self.running[slot]
        self._free_slots.append(slot)
        self._free_blocks(request)
        request.preempt()
        self.waiting.add_preempted(request)
        self._stats.preemptions += 1

    def _free_blocks(self, request: EngineRequest) -> None:
        if request in self.prefilling:
            self.prefilling.remove(request)
        if self.blocks:
            self.blocks.free(request)
