"""The engine's one mutable object per request."""

from dataclasses import dataclass, field
from enum import Enum, auto

from antiphon.models.base import Piece, Prompt


class Status(Enum):
    """Where a request is in its life."""

    WAITING = auto()  # for a slot
    RUNNING = auto()  # holds a slot
    ENDED = auto()


@dataclass(slots=True, eq=False)
class EngineRequest:
    """A request inside the engine; only the engine's thread touches it."""

    id: str
    prompt: Prompt
    status: Status = Status.WAITING
    slot: int | None = None
    num_frames_planned: int = 0
    num_frames: int = 0
    num_frames_read: int = 0
    num_frames_allowed: int | None = field(init=False)
    pieces: list[Piece] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.num_frames_allowed = self.prompt.num_frames_allowed

    @property
    def num_frames_unread(self) -> int:
        """Frames made or under way, but not yet taken by the listener's side."""
        return self.num_frames_planned - self.num_frames_read

    @property
    def is_out_of_text(self) -> bool:
        """Whether the next frame needs text that has not arrived yet."""
        allowed = self.num_frames_allowed
        return allowed is not None and self.num_frames_planned >= allowed

    @property
    def is_fully_planned(self) -> bool:
        """Whether the last frame that the request may have is under way."""
        limit = self.prompt.sampling.max_frames
        return limit is not None and self.num_frames_planned >= limit

    @property
    def is_at_limit(self) -> bool:
        limit = self.prompt.sampling.max_frames
        return limit is not None and self.num_frames >= limit
