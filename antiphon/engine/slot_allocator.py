"""Who holds a slot, and blocks with it; and who must give them up for others."""

from collections import deque
from collections.abc import Iterable, Sequence
from math import inf

from antiphon.engine.block_tables import BlockTables
from antiphon.engine.plan import CacheShape, CodecShape, Start
from antiphon.engine.request import EngineRequest, Status, slot_of
from antiphon.engine.request_queue import RequestQueue
from antiphon.engine.step_plan_builder import StepPlanBuilder

_BULK_SHARE = 8  # one slot in so many is bulk work's, even if listeners wait
_MAX_BULK_WAIT_S = 5.0  # after which bulk work asks for its share
_NO_END = 1 << 62


class SlotAllocator:
    """The slots of an engine, and all who hold or want one.

    Attributes:
        waiting: for a slot.
        running: by slot.
        draining: by slot; they make no frame any more, and hold no blocks.
        prefilling: of those that run, whose prompts are not computed yet; in order of their starts.
        releases: slots that were given up since the last plan.
        max_running: requests that may run at once, though there may be more slots.
        tables: of blocks; ``None`` if the runner needs none.
    """

    def __init__(
        self, num_slots: int, cache: CacheShape | None = None, codec: CodecShape | None = None
    ) -> None:
        self.waiting = RequestQueue()
        self.running: dict[int, EngineRequest] = {}
        self.draining: dict[int, EngineRequest] = {}
        self.prefilling: list[EngineRequest] = []
        self.releases: list[int] = []
        self.max_running = num_slots
        self.tables = BlockTables(cache) if cache else None
        self._num_slots = num_slots
        self._frame_s = codec.frame_s if codec else 0.0
        self._free_slots = deque(range(num_slots))
        self._without_text: list[EngineRequest] = []

    @property
    def num_bulk(self) -> int:
        """Bulk requests among those that run."""
        return sum(not each.is_live for each in self.running.values())

    @property
    def bulk_share(self) -> int:
        """Slots that bulk work need not give up."""
        return max(1, self._num_slots // _BULK_SHARE)

    @property
    def num_bulk_kept(self) -> int:
        """Slots that bulk work has and need not give up."""
        return min(self.num_bulk, self.bulk_share)

    @property
    def free_share(self) -> float:
        """Share of the slots that are left when those who wait have theirs; may be negative."""
        return (len(self._free_slots) - len(self.waiting)) / self._num_slots

    @property
    def may_start(self) -> bool:
        """Whether somebody waits, and could possibly be given a slot."""
        return bool(self.waiting) and bool(self._free_slots or self.waiting.num_live)

    def enter(self, request: EngineRequest) -> None:
        """Let a new request wait.

        Raises:
            InvalidRequestError: there is no room for it, even alone.
        """
        request.frames_held = _NO_END if self.tables is None else 0
        if self.tables:
            max_frames = self.tables.max_frames(request.prompt)
            limit = request.frames_limit
            request.frames_limit = max_frames if limit is None else min(limit, max_frames)
            self.tables.enter(request)
        self.waiting.add(request)

    def with_blocks(
        self, rows: Sequence[EngineRequest], draft: StepPlanBuilder
    ) -> list[EngineRequest]:
        """Hold the blocks that frames of ``rows`` need; return who is left of them."""
        if self.tables is None:
            return list(rows)
        short = [each for each in rows if each.num_frames_planned >= each.frames_held]
        is_complete = True
        while len(short) > self.tables.pool.num_available:
            victim = self._victim(self.running.values())
            assert victim is not None, "nobody holds the blocks"
            self._preempt(victim, draft)
            short = [each for each in short if each is not victim]
            is_complete = False
        for each in short:
            draft.blocks[slot_of(each)] = self.tables.grow(each)
        if is_complete:
            return list(rows)
        return [each for each in rows if each.status is Status.RUNNING]

    def start_waiting(self, draft: StepPlanBuilder) -> None:
        """Fill slots, strictly in order: nobody overtakes whoever needs many blocks."""
        self._begin_those_with_text(draft)
        while self.may_start:
            line = self.waiting.in_order(is_bulk_first=self._is_bulk_owed(draft.now_s))
            request = next((each for each in line if each.may_start), None)
            if request is None or not self._make_slot(request, draft):
                return
            if not self._make_room(request, draft):
                return
            self.waiting.remove(request)
            self._start(request, draft)

    def drain(self, request: EngineRequest) -> None:
        """Let a running request give up all but its slot; its last frame is planned."""
        slot = slot_of(request)
        del self.running[slot]
        self._give_up_blocks(request)
        self.draining[slot] = request
        request.status, request.frames_bound = Status.DRAINING, 0

    def leave(self, request: EngineRequest, status: Status) -> None:
        """Let a request give up all that it holds."""
        if request.slot is not None:
            self.running.pop(request.slot, None)
            self.draining.pop(request.slot, None)
            self._free_slots.append(request.slot)
            self.releases.append(request.slot)
            self._give_up_blocks(request)
        elif request.status is Status.WAITING:
            self.waiting.remove(request)
        request.slot, request.status = None, status

    def check_integrity(self) -> None:
        """Assert that every slot and block is free or held by one who is known, none is lost."""
        holders = {**self.running, **self.draining}
        assert len(holders) == len(self.running) + len(self.draining), "a slot is held twice"
        assert sorted([*self._free_slots, *holders]) == list(range(self._num_slots))
        assert all(each.slot == slot for slot, each in holders.items())
        assert all(each.status is Status.RUNNING for each in self.running.values())
        assert all(each.status is Status.DRAINING for each in self.draining.values())
        for each in (*self.waiting.in_order(), *self.draining.values()):
            assert not each.blocks, "blocks are held by one who makes no frame"
        assert all(each.status is Status.RUNNING for each in self.prefilling)
        if self.tables:
            self.tables.pool.check_integrity([each.blocks for each in self.running.values()])

    def _start(self, request: EngineRequest, draft: StepPlanBuilder) -> None:
        slot = request.slot = self._free_slots.popleft()
        num_decoded = min(request.num_frames_decoded, request.num_frames)
        draft.starts.append(Start(slot, request.prompt, tuple(request.frames), num_decoded))
        if request.reason is not None:
            request.status = Status.DRAINING
            self.draining[slot] = request
            return
        request.status = Status.RUNNING
        self.running[slot] = request
        if request.has_text:
            self._begin(request, draft)
        elif self.tables:
            self._without_text.append(request)

    def _begin(self, request: EngineRequest, draft: StepPlanBuilder) -> None:
        if self.tables:
            self.tables.begin(request)
            draft.blocks[slot_of(request)] = tuple(request.blocks)
        if not request.is_prefilled:
            self.prefilling.append(request)
        elif request.may_run:
            draft.rows.append(request)

    def _begin_those_with_text(self, draft: StepPlanBuilder) -> None:
        for request in tuple(self._without_text):
            if request.status is not Status.RUNNING or request.blocks:
                self._without_text.remove(request)
            elif request.has_text and self._make_room(request, draft):
                self._without_text.remove(request)
                self._begin(request, draft)

    def _is_bulk_owed(self, now_s: float) -> bool:
        oldest = self.waiting.oldest_bulk
        if oldest is None or now_s - oldest.arrived_s < _MAX_BULK_WAIT_S:
            return False
        return self.num_bulk < self.bulk_share

    def _make_slot(self, request: EngineRequest, draft: StepPlanBuilder) -> bool:
        """See to a free slot; a listener gets that of bulk work beyond its share."""
        if self._free_slots and self._may_run(request):
            return True
        if not request.is_live or self.num_bulk <= self.bulk_share:
            return False
        bulk = (each for each in self.running.values() if not each.is_live)
        self._preempt(min(bulk, key=lambda each: each.num_frames), draft)
        return self._may_run(request)

    def _may_run(self, request: EngineRequest) -> bool:
        """Whether one more may run; a listener always may where there is only bulk work."""
        num_running = len(self.running)
        return num_running < self.max_running or (request.is_live and num_running == self.num_bulk)

    def _make_room(self, request: EngineRequest, draft: StepPlanBuilder) -> bool:
        """See to the blocks that a request begins with, and one more for each that runs."""
        if self.tables is None or request.reason is not None or not request.has_text:
            return True
        while self.tables.num_missing(request) + len(draft.rows) > self.tables.pool.num_available:
            idle = self._victim(each for each in self.running.values() if not each.may_run)
            if idle is None:
                return False
            self._preempt(idle, draft)
        return True

    def _victim(self, requests: Iterable[EngineRequest]) -> EngineRequest | None:
        """Return whose blocks are missed least: idle, or bulk, or with most audio in hand."""

        def patience(request: EngineRequest) -> tuple[bool, bool, float, float]:
            deadline_s = 0.0
            if request.deadline_s < inf:
                deadline_s = request.deadline_s + request.num_frames_undecoded * self._frame_s
            return not request.may_run, not request.is_live, deadline_s, request.arrived_s

        return max((each for each in requests if each.blocks), key=patience, default=None)

    def _preempt(self, request: EngineRequest, draft: StepPlanBuilder) -> None:
        """Take a request's slot and blocks; it comes back before all who came after it."""
        slot = slot_of(request)
        assert all(start.slot != slot for start in draft.starts), "it has only just started"
        draft.drop(request)
        draft.releases.append(slot)
        del self.running[slot]
        self._free_slots.append(slot)
        self._give_up_blocks(request)
        request.slot, request.status = None, Status.WAITING
        request.num_pieces_planned = 0
        self.waiting.add(request, is_back=True)

    def _give_up_blocks(self, request: EngineRequest) -> None:
        if request in self.prefilling:
            self.prefilling.remove(request)
        if self.tables:
            self.tables.free(request)
