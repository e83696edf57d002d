"""Stage contracts: requests, the streams that answer them, and the drivers' protocol."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.prompt import Admitted, GeneratorItem, Piece, Prompt
from antiphon.contracts.types import Ended, FrameReady
from antiphon.telemetry.stage_status import Publish

StageItem: TypeAlias = FrameReady | GeneratorItem | Admitted | Ended
StageStream: TypeAlias = AsyncGenerator[StageItem, None]


@dataclass(frozen=True, slots=True)
class StageHandle:
    """Names a hosted stage; only the fabric that hosts it can resolve it."""

    id: str


@dataclass(frozen=True, slots=True)
class StageRequest:
    """A request as every stage of a pipeline gets it; data, which can be pickled.

    Attributes:
        id: unique among those that are open.
        prompt: Prompt of the first stage, or its beginning if text is still arriving.
        is_live: whether a listener plays it while it is made; otherwise its priority is offline.
        stream_id: names the stream that this is a part of; ``None``: it is one of its own.
        is_later: whether this continues a stream that was admitted, so that it is never refused.
        is_reservation: whether it only asks for room for its stream, before there is a prompt. It
            is answered with `Admitted`, and the room is kept until it is closed or a request of the
            stream comes, which is ``is_later``.
        tells_admission: whether its first item shall be `Admitted`, as soon as it is not refused
            any more. Stages that admit nothing leave it out.
        pieces: Text that has arrived since the prompt was built; more may follow.
        resume_frames: Frames that a lost replica of the first stage made, and whose audio
            was delivered; the stream goes on after them. Text that had arrived by then is part of
            the prompt or of ``pieces``, or is appended again.
        returns_frames: whether its audio shall bring the frames that it was made of (see
            `AudioChunk.frames`), so that another replica can go on if this one is lost.
        buffered_s: audio that its listener has left to play when it is opened, in seconds:
            the clocks of hosts differ. ``None``: not known, or there is none.
        upstream: the stages before this one, first to last, whose items it consumes.
    """

    id: str
    prompt: Prompt
    is_live: bool = True
    stream_id: str | None = None
    is_later: bool = False
    is_reservation: bool = False
    tells_admission: bool = False
    speed: float = 1.0
    pieces: tuple[Piece, ...] = ()
    resume_frames: tuple[Any, ...] = ()
    returns_frames: bool = False
    buffered_s: float | None = None
    upstream: tuple[StageHandle, ...] = ()


class Stage(Protocol):
    """Model code that can be placed anywhere, independent of the fabric.

    The stream that `open` returns ends with exactly one `Ended`, or raises. Closing it, at any
    moment, closes ``upstream`` and frees all that the request holds.
    """

    def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        """Stream this stage's part of ``request``; ``upstream`` is the stage before, if any."""

    def append(self, request_id: str, piece: Piece) -> None:
        """Append text to an open request; does nothing if it has ended."""

    def abort(self, request_id: str) -> None:
        """End an open request by `Ended` with the reason "abort"; does nothing if it has ended."""

    async def close(self) -> None:
        """Free the memory of loading."""


StageBuilder: TypeAlias = Callable[[Sequence[StageSpec], LoadContext, Publish], Stage]
"""Loads the model code of stages that share a device, and puts the driver of it around it."""
