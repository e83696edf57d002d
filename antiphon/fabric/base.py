"""What a fabric does with stages: host them from data, open requests at them, publish statuses."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from antiphon.models.base import Admitted, GeneratorItem, Piece, Prompt
from antiphon.models.spec import LoadContext, StageSpec
from antiphon.telemetry.stage_status import Publish, StageStatus
from antiphon.types import Ended, FrameReady

StageItem: TypeAlias = FrameReady | GeneratorItem | Admitted | Ended
StageStream: TypeAlias = AsyncGenerator[StageItem, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the stages of one engine run, and how many replicas of it there are.

    Attributes:
        device: as in `LoadContext`, which it overrides; ``None`` leaves it.
        devices: of the replicas, in turn, instead of ``device``.
        num_replicas: at the start.
        min_replicas: that autoscaling leaves; with ``max_replicas`` equal it does nothing.
        max_replicas: that autoscaling adds up to; ``None``: ``num_replicas``.
        num_gpus: of each replica, as a fabric that places counts them; a fraction shares one.
        num_cpus: CPUs that each replica reserves, likewise; ``None``: none beside a GPU, else a
            small share.
        max_slots: as in `LoadContext`, which it overrides; ``None`` leaves it.
        memory_fraction: of a device's memory that a replica may use; ``None``: what it needs.
        labels: ``(name, value)`` that the host of a replica must have.
        environment: variables of the process of a replica.
        settings: of the engine, overriding those of `LoadContext`, by its fields' names.
    """

    device: str | None = None
    devices: tuple[str, ...] = ()
    num_replicas: int = 1
    min_replicas: int = 1
    max_replicas: int | None = None
    num_gpus: float = 0.0
    num_cpus: float | None = None
    max_slots: int | None = None
    memory_fraction: float | None = None
    labels: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()

    def context_of(self, context: LoadContext, number: int) -> LoadContext:
        """Return the context that a replica is loaded with, its device included.

        This is the only place where the device of a replica is decided. The process that loads the
        replica gets this context and no placement.

        Args:
            context: the model's own.
            number: index of the replica, from 0.
        """
        device = self.devices[number % len(self.devices)] if self.devices else self.device
        return replace(
            context,
            device=device or context.device,
            max_slots=self.max_slots or context.max_slots,
            memory_fraction=self.memory_fraction or context.memory_fraction,
            **dict(self.settings),
        )


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
        is_reservation: whether it only asks for room for its stream, before there is a prompt. It
            is answered with `Admitted`, and the room is kept until it is closed or a request of the
            stream comes, which is ``is_later``.
        tells_admission: whether its first item shall be `Admitted`, as soon as it is not refused
            any more. Stages that admit nothing leave it out.
        speed: of playback.
        pieces: of its text that have arrived since the prompt was built; more may follow.
        resume_frames: that a replica of the first stage made before it was lost, and whose audio
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
