"""What a fabric does with stages: host them from data, open requests at them, publish statuses."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from antiphon.models.base import GeneratorItem, Piece, Prompt
from antiphon.models.spec import LoadContext, StageSpec
from antiphon.telemetry.stage_status import Publish, StageStatus
from antiphon.types import Ended, FrameReady

StageItem: TypeAlias = FrameReady | GeneratorItem | Ended
StageStream: TypeAlias = AsyncGenerator[StageItem, None]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a stage runs.

    Attributes:
        device: as in `LoadContext`, which it overrides; ``None`` leaves it.
    """

    device: str | None = None


@dataclass(frozen=True, slots=True)
class StageHandle:
    """Names a hosted stage; only the fabric that hosts it can resolve it."""

    id: str


@dataclass(frozen=True, slots=True)
class StageRequest:
    """A request as every stage of a pipeline gets it; data, which can be pickled.

    Attributes:
        id: unique among those that are open.
        prompt: of the first stage, or its beginning if text is still arriving.
        is_live: whether a listener plays it while it is made; otherwise its priority is offline.
        stream_id: names the stream that this is a part of; ``None``: it is one of its own.
        is_later: whether this continues a stream that was admitted, so that it is never refused.
        speed: of playback.
        resume_frames: that a replica of the first stage made before it was lost, and whose audio
            was delivered; the stream goes on after them. Text that had arrived by then is part of
            the prompt, or is appended again.
        upstream: the stages before this one, first to last, whose items it consumes.
    """

    id: str
    prompt: Prompt
    is_live: bool = True
    stream_id: str | None = None
    is_later: bool = False
    speed: float = 1.0
    resume_frames: tuple[Any, ...] = ()
    upstream: tuple[StageHandle, ...] = ()


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

    def abort(self, request_id: str) -> None:
        """End an open request by `Ended` with the reason "abort"; does nothing if it has ended."""
        ...

    async def close(self) -> None:
        """Free what loading took."""
        ...


class StageBuilder(Protocol):
    """Loads the model code of stages that share a device, and puts the driver of it around it."""

    def __call__(
        self, specs: Sequence[StageSpec], context: LoadContext, publish: Publish
    ) -> Stage: ...


class Fabric(Protocol):
    """Hosts stages, of one model or of several."""

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> StageHandle:
        """Load stages that share a device, off the event loop.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        ...

    def open(self, handle: StageHandle, request: StageRequest) -> StageStream:
        """Open a request at a stage, and at those before it, which it pulls."""
        ...

    def append(self, handle: StageHandle, request_id: str, piece: Piece) -> None:
        """Give a request that is open at a stage more text."""
        ...

    def abort(self, handle: StageHandle, request_id: str) -> None:
        """End a request that is open at a stage."""
        ...

    def status(self, handle: StageHandle) -> StageStatus:
        """Return what a stage has published last."""
        ...

    @property
    def num_open(self) -> int:
        """Requests that are open, over all stages."""
        ...

    async def drain(self) -> None:
        """Return when no request is open any more."""
        ...

    async def release(self, handle: StageHandle) -> None:
        """Unload a stage."""
        ...
