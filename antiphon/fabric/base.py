"""What a fabric does with stages: host them, open streams through them, drain them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from antiphon.models.base import Piece, Prompt
from antiphon.types import AudioChunk, Ended, FrameReady

StageItem: TypeAlias = FrameReady | AudioChunk | Ended
StageStream: TypeAlias = AsyncGenerator[StageItem, None]


@dataclass(frozen=True, slots=True)
class StageRequest:
    """What every stage of a pipeline is told of one request; data, which can be pickled.

    Attributes:
        id: unique among those that are open.
        prompt: what is to be spoken, or its beginning.
        is_live: whether somebody listens while it is made; else only its end matters.
        stream_id: names the stream that this is a part of; ``None``: it is one of its own.
        is_later: whether this goes on with a stream that was let in: nobody who listens is told in
            the middle that there is no room.
        speed: at which it will be played.
    """

    id: str
    prompt: Prompt
    is_live: bool = True
    stream_id: str | None = None
    is_later: bool = False
    speed: float = 1.0


class Stage(Protocol):
    """Model code that can be placed anywhere; it knows no fabric.

    The stream that `open` returns ends with exactly one `Ended`, or raises. Closing it, at any
    moment, closes ``upstream`` and frees all that the request holds.
    """

    def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        """Stream this stage's part of ``request``; ``upstream`` is the stage before, if any."""
        ...

    def append(self, request_id: str, piece: Piece) -> None:
        """Give an open request more text; does nothing if it has ended."""
        ...

    @property
    def failure(self) -> str | None:
        """What broke the stage for good, or ``None`` while it works."""
        ...

    @property
    def stalled_s(self) -> float:
        """Seconds that the step under way has taken so far, 0 between steps."""
        ...

    async def close(self) -> None:
        """Free what loading took."""
        ...


class Fabric(Protocol):
    """Hosts the stages of one model."""

    async def host(self, name: str, build: Callable[[], Stage]) -> None:
        """Build a stage, off the event loop, and keep it under ``name``."""
        ...

    def open(self, name: str, request: StageRequest, upstream: StageStream | None) -> StageStream:
        """Open a request's stream through the stage of this name."""
        ...

    def held(self) -> AbstractAsyncContextManager[object]:
        """Return a context in which the stages stay loaded; entering it loads them.

        Raises:
            ModelLoadingError: they are not there in time.
        """
        ...

    def append(self, name: str, request_id: str, piece: Piece) -> None:
        """Give a request that is open at the stage of this name more text."""
        ...

    @property
    def num_open(self) -> int:
        """Streams that are open now, over all stages."""
        ...

    @property
    def failure(self) -> str | None:
        """What broke a stage for good, or ``None`` while all work."""
        ...

    @property
    def stalled_s(self) -> float:
        """Seconds that the longest step under way has taken so far, over all stages."""
        ...

    async def drain(self) -> None:
        """Return when no stream is open any more."""
        ...

    async def close(self) -> None:
        """Close every stage."""
        ...
