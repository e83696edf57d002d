"""State of a request in the engine; every change of it is a method here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Any

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import FinishReason, Samples
from antiphon.engine.plan import FRAME_STORE_FRAMES


@dataclass(slots=True)
class PlaybackClock:
    """The audio that a client has buffered.

    Attributes:
        deadline_s: time at which the client runs out of audio; ``inf`` before the first audio and
            for an offline request.
    """

    deadline_s: float = inf

    def extend(self, now_s: float, duration_s: float) -> None:
        """Add audio that is there now; it is played after the buffered audio, or at once."""
        begins_s = now_s if self.deadline_s == inf else max(self.deadline_s, now_s)
        self.deadline_s = begins_s + duration_s


@dataclass(slots=True)
class CodecProgress:
    """How far the codec is with the frames of a request; written by the `ChunkPlanner`.

    Attributes:
        num_decoded: frames in planned chunks; the last chunks may reach past the end.
        num_decoding: frames of these in chunks that are in flight.
        num_delivered: frames whose audio was delivered.
        num_late: frames past the end that chunks reach to; see `CodecShape.late_frames`.
        chunk_frames: frames of the next chunk.
        num_to_replay: frames that the decoder of the request's slot must be given again, since
            their audio was made before it had this slot.
        num_replayed: frames of these in planned replays.
        received_s: arrival of the latest frame from the stage before; ``-inf``: none has arrived.
        held: first audio, kept back until it covers the gap to the next chunk; ``None`` once it is
            delivered.
    """

    num_decoded: int = 0
    num_decoding: int = 0
    num_delivered: int = 0
    num_late: int = 0
    chunk_frames: int = 0
    num_to_replay: int = 0
    num_replayed: int = 0
    received_s: float = -inf
    held: "Samples | None" = None

    @property
    def is_replaying(self) -> bool:
        """Whether the slot's decoder is still being given frames again."""
        return self.num_replayed < self.num_to_replay


class Status(Enum):
    WAITING = auto()  # queued for a slot, initially or after a preemption
    RUNNING = auto()  # holds a slot
    DRAINING = auto()  # its last frame is planned; holds a slot for the codec chunks to be planned
    DRAINED = auto()  # holds nothing; its last codec chunks are in flight
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class PrefixHashes:
    """Hashes of a prompt's prefixes, for the prefix cache.

    Attributes:
        blocks: hash of each full block together with all positions before it.
        common: hash of the common positions; ``None`` if they end at the end of a block, whose
            hash is enough.
        num_common: number of common positions; 0 without ``common``.
    """

    blocks: tuple[bytes, ...] = ()
    common: bytes | None = None
    num_common: int = 0

    @property
    def all(self) -> tuple[bytes, ...]:
        return self.blocks if self.common is None else (*self.blocks, self.common)


@dataclass(slots=True)
class BlockTable:
    """KV blocks of a request; written by the `BlockManager`.

    Attributes:
        blocks: block numbers in the order of their positions.
        num_cached: full blocks at the beginning that are in the prefix cache.
        num_computed: prefilled positions, the plan being made included.
        num_required: positions that must be prefilled before the next frame.
        frames_capacity: frames, from the request's first on, that the blocks have room for.
    """

    hashes: PrefixHashes = field(default_factory=PrefixHashes)
    blocks: list[int] = field(default_factory=list)
    num_cached: int = 0
    num_computed: int = 0
    num_required: int = 0
    frames_capacity: int = 0

    @property
    def is_prefilled(self) -> bool:
        """Whether all positions before the next frame are computed once the plan is done."""
        return self.num_computed >= self.num_required


@dataclass(slots=True, eq=False)
class EngineRequest:
    """A request in the engine; only the engine's thread touches it.

    Numbers of frames count from the request's beginning, through all slots that it has had.

    Attributes:
        is_live: whether a client plays the stream while it is made; otherwise its priority is
            offline.
        num_in_flight: steps in flight that have a row or a codec chunk of it.
        frames: frames made so far; a preempted request is resumed with them.
        num_frames_planned: frames made, in flight, or in the plan being made.
        max_frames: limit of the whole request; ``None``: no limit.
        planning_limit: frames that may be planned now, by all limits together.
        max_unread_frames: limit of planned frames that the consumer has not read.
        has_codec: whether the runner decodes its frames; otherwise the frames are delivered.
        num_pieces_planned: pieces that were sent to the slot.
        buffered_s: audio that its client had buffered on arrival; ``None``: unknown.
        is_admitted: whether it continues a stream that was admitted, and is not refused.
        returns_frames: whether its audio includes the frames that it was made of.
    """

    id: str
    prompt: Prompt
    is_live: bool = True
    arrived_s: float = 0.0
    status: Status = Status.WAITING
    slot: int | None = None
    finish_reason: FinishReason | None = None
    num_in_flight: int = 0
    frames: list[Any] = field(default_factory=list)
    num_frames_planned: int = 0
    num_frames_read: int = 0
    max_frames: int | None = field(init=False)
    planning_limit: int = 0
    max_unread_frames: int = 0
    has_codec: bool = False
    pieces: list[Piece] = field(default_factory=list)
    num_pieces_planned: int = 0
    codec: CodecProgress = field(default_factory=CodecProgress)
    clock: PlaybackClock = field(default_factory=PlaybackClock)
    table: BlockTable = field(default_factory=BlockTable)
    buffered_s: float | None = None
    is_admitted: bool = False
    returns_frames: bool = False

    def __post_init__(self) -> None:
        self.max_frames = self.prompt.sampling.max_frames

    def arrive(self, now_s: float, max_unread_frames: int, *, has_codec: bool) -> None:
        """Enter the engine; the clock starts if it is resumed with a known buffer."""
        self.arrived_s = now_s
        self.max_unread_frames, self.has_codec = max_unread_frames, has_codec
        if self.buffered_s is not None and self.is_live:
            self.clock.deadline_s = now_s + self.buffered_s
        self._update_limit()

    def resume(self, frames: Sequence[Any], buffered_s: float | None = None) -> None:
        """Continue after frames that were made and delivered elsewhere, before `arrive`."""
        self.frames, self.buffered_s = [*frames], buffered_s
        self.is_admitted = self.is_admitted or bool(frames)
        self.num_frames_planned = self.num_frames_read = len(frames)
        self.codec.num_decoded = self.codec.num_delivered = len(frames)

    def read(self, num_frames: int) -> None:
        """Record that the consumer has read frames, or audio of as many."""
        self.num_frames_read += num_frames
        self._update_limit()

    def append(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self._update_limit()

    def take_pieces(self) -> list[Piece]:
        """Return the pieces that were not sent to the slot yet."""
        pieces = self.pieces[self.num_pieces_planned :]
        self.num_pieces_planned = len(self.pieces)
        return pieces

    def start(self, slot: int, num_to_replay: int = 0) -> None:
        """Enter a slot: to make frames, or only to have the last ones decoded."""
        self.slot = slot
        self.codec.num_replayed, self.codec.num_to_replay = 0, num_to_replay
        self.status = Status.RUNNING if self.finish_reason is None else Status.DRAINING

    def plan_frame(self) -> None:
        """Make one frame in the plan being made."""
        self.num_frames_planned += 1
        self.num_in_flight += 1

    def plan_chunk(self, num_frames: int) -> None:
        """Decode frames in the plan being made."""
        self.codec.num_decoded += num_frames
        self.codec.num_decoding += num_frames
        self.num_in_flight += 1
        self._update_limit()

    def finish(self, reason: FinishReason) -> None:
        """Record that no frame follows; frames planned beyond the end are dropped."""
        self.finish_reason = reason
        self.num_frames_planned, self.planning_limit = self.num_frames, 0

    def drain(self) -> None:
        """Plan no further frame."""
        self.status, self.planning_limit = Status.DRAINING, 0

    def preempt(self) -> None:
        """Lose the slot and wait for another one, to which all pieces are sent again."""
        self.slot, self.status, self.num_pieces_planned = None, Status.WAITING, 0

    def leave(self, status: Status) -> None:
        """Free the slot for good."""
        self.slot, self.status = None, status

    @property
    def num_frames(self) -> int:
        return len(self.frames)

    @property
    def num_frames_allowed(self) -> int | None:
        """Frames that the text so far allows; ``None``: the text is complete."""
        return (self.pieces[-1] if self.pieces else self.prompt).num_frames_allowed

    @property
    def has_text(self) -> bool:
        """Whether there is text to begin with."""
        return self.num_frames_allowed is None or self.num_frames_allowed > 0

    @property
    def is_text_used_up(self) -> bool:
        """Whether the next frame needs text that has not arrived."""
        allowed = self.num_frames_allowed
        return allowed is not None and self.num_frames_planned >= allowed

    @property
    def is_unread(self) -> bool:
        """Whether no frame is planned since the consumer is behind by the limit."""
        return self.num_frames_planned >= self.num_frames_read + self.max_unread_frames

    @property
    def is_half_unread(self) -> bool:
        """Whether the consumer is behind by half of the limit."""
        return 2 * (self.num_frames_planned - self.num_frames_read) >= self.max_unread_frames

    @property
    def num_frames_undecoded(self) -> int:
        """Frames, planned ones and those past the end included, that are in no codec chunk yet."""
        num_late = 0 if self.finish_reason is None else self.codec.num_late
        return self.num_frames_planned + num_late - self.codec.num_decoded

    @property
    def is_delivered(self) -> bool:
        """Whether it has finished and all of its audio, or its frames, were delivered."""
        if self.finish_reason is None:
            return False
        return not self.has_codec or self.codec.num_delivered >= self.num_frames

    @property
    def is_all_planned(self) -> bool:
        """Whether all frames that are planned are in codec chunks too, if there is a codec."""
        return not self.has_codec or self.num_frames_undecoded <= 0

    @property
    def may_run(self) -> bool:
        """Whether its next frame needs only a row in a step."""
        return self.num_frames_planned < self.planning_limit

    @property
    def needs_decoding(self) -> bool:
        """Whether its next frame waits for the codec: by the frame store, or for its consumer."""
        num_undelivered = self.num_frames_planned - self.codec.num_delivered
        is_store_full = self.num_frames_undecoded >= FRAME_STORE_FRAMES
        return self.has_codec and (is_store_full or num_undelivered >= self.max_unread_frames)

    @property
    def is_idle(self) -> bool:
        """Whether its next frame needs more text, or its consumer to read."""
        return not (self.may_run or self.needs_decoding)

    @property
    def is_last_frame_planned(self) -> bool:
        """Whether the frames planned reach its limit, or it drains."""
        if self.status is Status.DRAINING:
            return True
        return self.max_frames is not None and self.num_frames_planned >= self.max_frames

    @property
    def may_start(self) -> bool:
        """Whether it can use a slot; it cannot while a frame of an earlier slot is in flight."""
        if self.num_in_flight:
            return False
        return self.num_frames_planned == 0 or self.finish_reason is not None or not self.is_idle

    def _update_limit(self) -> None:
        if self.finish_reason is not None or self.status not in (Status.WAITING, Status.RUNNING):
            return
        limit = self.num_frames_read + self.max_unread_frames
        if self.has_codec:
            limit = min(limit, self.codec.num_decoded + FRAME_STORE_FRAMES)
        for bound in (self.num_frames_allowed, self.max_frames):
            if bound is not None:
                limit = min(limit, bound)
        self.planning_limit = limit


def slot_of(request: EngineRequest) -> int:
    assert request.slot is not None, f"{request.id} holds no slot"
    return request.slot
