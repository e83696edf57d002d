"""Decides which requests hold a slot and which make a frame in the next step; knows no tensor."""

from collections import deque
from typing import TypeAlias

from antiphon.engine.plan import Append, Start, StepOutput, StepPlan
from antiphon.engine.request import EngineRequest, Status
from antiphon.models.base import Piece
from antiphon.types import Ended, FinishReason, FrameReady

EngineEvent: TypeAlias = FrameReady | Ended


class Scheduler:
    """First come, first served over a fixed number of slots.

    A request whose listener is ``max_unread_frames`` behind keeps its slot but is left out of the
    step until the listener has read on, so that a slow reader bounds its own memory. A request
    that has spoken all the text that has arrived so far waits in its slot in the same way.
    """

    def __init__(self, num_slots: int, *, max_unread_frames: int = 128) -> None:
        self._max_unread_frames = max_unread_frames
        self._num_slots = num_slots
        self._free_slots = deque(range(num_slots))
        self._waiting: deque[EngineRequest] = deque()
        self._running: dict[int, EngineRequest] = {}
        self._by_id: dict[str, EngineRequest] = {}
        self._releases: list[int] = []
        self._under_way: deque[tuple[EngineRequest, ...]] = deque()

    def add(self, request: EngineRequest) -> None:
        """Queue a request."""
        assert request.id not in self._by_id, f"{request.id} is already here"
        self._by_id[request.id] = request
        self._waiting.append(request)

    def read(self, request_id: str) -> None:
        """Note that the listener's side has taken one frame."""
        if (request := self._by_id.get(request_id)) is not None:
            request.num_frames_read += 1

    def append(self, request_id: str, piece: Piece) -> None:
        """Give a request more text."""
        if (request := self._by_id.get(request_id)) is not None:
            request.pieces.append(piece)
            request.num_frames_allowed = piece.num_frames_allowed

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
        """Whether the next plan would not be empty."""
        return bool(
            self._releases
            or (self._waiting and self._free_slots)
            or any(self._may_run(request) for request in self._running.values())
        )

    def schedule(self) -> StepPlan:
        """Plan one step: fill free slots, then run every slot whose listener keeps up."""
        releases, self._releases = tuple(self._releases), []
        starts = []
        while self._waiting and self._free_slots:
            request = self._waiting.popleft()
            request.slot = self._free_slots.popleft()
            request.status = Status.RUNNING
            self._running[request.slot] = request
            starts.append(Start(request.slot, request.prompt))
        slots = tuple(slot for slot, each in self._running.items() if self._may_run(each))
        if slots:
            self._under_way.append(tuple(self._running[slot] for slot in slots))
        for slot in slots:
            self._running[slot].num_frames_planned += 1
        return StepPlan(releases, tuple(starts), self._take_appends(), slots)

    def update(self, plan: StepPlan, output: StepOutput) -> list[tuple[str, EngineEvent]]:
        """Take a step's result in; return what each request is to be told.

        Steps are updated in the order in which they were scheduled, though more may have been
        scheduled in between. A request that has ended in the meantime is told nothing.
        """
        events: list[tuple[str, EngineEvent]] = []
        requests = self._under_way.popleft() if plan.slots else ()
        for slot, request in zip(plan.slots, requests, strict=True):
            if request.status is Status.ENDED:
                continue
            reason: FinishReason | None = None
            if slot in output.stopped:
                reason = "stop"
            elif slot in output.faults:
                reason = "error"
            else:
                request.num_frames += 1
                events.append((request.id, FrameReady(output.frames[slot])))
                if request.is_at_limit or slot in output.lengths:
                    reason = "length"
            if reason is not None:
                events.append((request.id, Ended(reason)))
                self._end(request)
        return events

    def check_integrity(self) -> None:
        """Assert that every slot is either free or held by exactly one live request."""
        held = set(self._running)
        assert len(set(self._free_slots)) == len(self._free_slots), "a slot is free twice"
        assert not held & set(self._free_slots), "a held slot is free"
        assert held | set(self._free_slots) == set(range(self._num_slots)), "a slot is lost"
        assert all(each.slot == slot for slot, each in self._running.items())
        assert len(self._by_id) == len(self._waiting) + len(self._running)

    def _may_run(self, request: EngineRequest) -> bool:
        is_read = request.num_frames_unread < self._max_unread_frames
        return is_read and not (request.is_out_of_text or request.is_fully_planned)

    def _take_appends(self) -> tuple[Append, ...]:
        appends = []
        for slot, request in self._running.items():
            appends += [Append(slot, piece) for piece in request.pieces]
            request.pieces.clear()
        return tuple(appends)

    def _end(self, request: EngineRequest) -> None:
        if request.slot is None:
            self._waiting.remove(request)
        else:
            del self._running[request.slot]
            self._free_slots.append(request.slot)
            self._releases.append(request.slot)
        del self._by_id[request.id]
        request.slot, request.status = None, Status.ENDED
