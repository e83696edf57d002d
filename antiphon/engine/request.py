"""The engine's one mutable object per request."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from antiphon.engine.block_pool import BlockName
from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.models.base import Piece, Prompt
from antiphon.types import FinishReason


class Status(Enum):
    """Where a request is in its life."""

    WAITING = auto()  # for a slot, at first or because it has been preempted
    RUNNING = auto()  # holds a slot
    DRAINING = auto()  # makes no frame any more; its last audio is not yet planned
    DRAINED = auto()  # holds nothing; its last audio is under way
    ENDED = auto()


@dataclass(slots=True, eq=False)
class EngineRequest:
    """A request inside the engine; only the engine's thread touches it.

    Numbers of frames count from the request's beginning, through all the slots that it has had.

    Attributes:
        id: names it.
        prompt: what it says.
        is_live: whether somebody listens while it is made; else it is bulk work.
        arrived_s: when it was added.
        status: where it is in its life.
        slot: that it holds.
        reason: why it ends, once that is known.
        num_frames_planned: made, or launched, or about to be.
        num_frames: made.
        num_frames_read: taken by the listener's side.
        num_frames_decoded: planned to become audio, rounded up at the end.
        num_frames_heard: that have become audio and were handed over.
        num_frames_allowed: with the text that is there; ``None``: as many as it takes.
        frames_limit: of the whole request; ``None``: no limit.
        frames_bound: that may be planned now, by all that bounds them; see `update_bound`.
        frames_held: that blocks are held for.
        frames: made so far, for when it comes back to a slot.
        pieces: text that has arrived, all of it.
        num_pieces_planned: of these, that the request's slot knows of.
        names: of its prompt's full blocks.
        blocks: its table.
        num_published: full blocks of the table that others may find.
        num_positions_planned: prefilled, or about to be.
        num_positions_needed: that must be prefilled before the next frame.
        chunk_frames: that its next chunk of audio should have.
        deadline_s: when its listener will have heard all audio planned so far; ``inf``: never.
        num_steps_left_out: in a row, though it could have run.
        num_in_flight: steps under way that it has a part in.
    """

    id: str
    prompt: Prompt
    is_live: bool = True
    arrived_s: float = 0.0
    status: Status = Status.WAITING
    slot: int | None = None
    reason: FinishReason | None = None
    num_frames_planned: int = 0
    num_frames: int = 0
    num_frames_read: int = 0
    num_frames_decoded: int = 0
    num_frames_heard: int = 0
    num_frames_allowed: int | None = field(init=False)
    frames_limit: int | None = field(init=False)
    frames_bound: int = 0
    frames_held: int = 0
    frames: list[Any] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    num_pieces_planned: int = 0
    names: tuple[BlockName, ...] = ()
    blocks: list[int] = field(default_factory=list)
    num_published: int = 0
    num_positions_planned: int = 0
    num_positions_needed: int = 0
    chunk_frames: int = 0
    deadline_s: float = float("inf")
    num_steps_left_out: int = 0
    num_in_flight: int = 0

    def __post_init__(self) -> None:
        self.num_frames_allowed = self.prompt.num_frames_allowed
        self.frames_limit = self.prompt.sampling.max_frames

    def update_bound(self, max_unread_frames: int, *, has_codec: bool) -> None:
        """Work out how many frames may be planned: to be called when what bounds them changes."""
        bound = self.num_frames_read + max_unread_frames
        if has_codec:
            bound = min(bound, self.num_frames_decoded + FRAME_STORE_FRAMES)
        for limit in (self.num_frames_allowed, self.frames_limit):
            if limit is not None:
                bound = min(bound, limit)
        self.frames_bound = bound

    @property
    def is_first_sound_due(self) -> bool:
        """Whether a listener waits for whom no audio is planned yet."""
        return self.is_live and self.num_frames_decoded == 0

    @property
    def num_frames_undecoded(self) -> int:
        """Frames that are no audio yet, and are not about to be."""
        return self.num_frames_planned - self.num_frames_decoded

    @property
    def has_text(self) -> bool:
        """Whether there is text to begin with."""
        return self.num_frames_allowed is None or self.num_frames_allowed > 0

    @property
    def is_all_heard(self) -> bool:
        """Whether it has ended, and all of its audio was handed over."""
        return self.reason is not None and self.num_frames_heard >= self.num_frames

    @property
    def is_prefilled(self) -> bool:
        """Whether all positions before its next frame are computed, once the plan is done."""
        return self.num_positions_planned >= self.num_positions_needed

    @property
    def may_run(self) -> bool:
        """Whether nothing but room in a step is missing for its next frame."""
        return self.num_frames_planned < self.frames_bound

    @property
    def is_fully_planned(self) -> bool:
        """Whether the last frame that the request may have is under way."""
        return self.frames_limit is not None and self.num_frames_planned >= self.frames_limit

    @property
    def may_start(self) -> bool:
        """Whether a slot would be of use: not while a frame of an earlier slot is under way."""
        if self.num_in_flight:
            return False
        return self.num_frames_planned == 0 or self.may_run or self.reason is not None


def slot_of(request: EngineRequest) -> int:
    """Return the slot of a request that holds one."""
    assert request.slot is not None, f"{request.id} holds no slot"
    return request.slot
