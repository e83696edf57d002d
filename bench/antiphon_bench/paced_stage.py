"""A stage that computes nothing: chunks at set times, each with the time at which it was made.

All streams make a chunk at the same moments, as those of an engine do. What is measured with it is
what lies between a stage and its reader.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.contracts.prompt import Piece
from antiphon.contracts.types import AudioChunk, Ended
from antiphon.stages.base import StageRequest, StageStream
from antiphon.telemetry.stage_status import Publish, StatusPublisher

NUM_SAMPLES = 7680
"""Of a chunk: four frames of 80 ms at 24 kHz."""

_CAPACITY = 100_000

BUILDER = Ref(f"{__name__}:build_paced")
SPEC = StageSpec("paced", StageKind.GENERATOR, ItemKind.TEXT, ItemKind.AUDIO, BUILDER)


@dataclass(frozen=True, slots=True)
class Pace:
    """Request to this stage.

    Attributes:
        num_chunks: chunks of the stream; the first is made at once.
        interval_s: time between two chunks; chunks are due at its multiples.
    """

    num_chunks: int
    interval_s: float


class PacedStage:
    """The stage; its requests' prompts hold the values of a `Pace`, which cross to any process."""

    def __init__(self, publish: Publish) -> None:
        """Publish a status with free slots."""
        self._status = StatusPublisher(publish)
        self._status.update(capacity=_CAPACITY)

    async def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        pace = Pace(*request.prompt.data)
        loop = asyncio.get_running_loop()
        self._status.update(opened=1)
        try:
            for number in range(pace.num_chunks):
                if number:
                    tick = loop.create_future()
                    due_s = (loop.time() // pace.interval_s + 1) * pace.interval_s
                    loop.call_at(due_s, _wake, tick)
                    await tick
                yield _chunk()
            yield Ended("stop")
        finally:
            self._status.update(opened=-1)

    def append(self, request_id: str, piece: Piece) -> None:
        """Take no notice: it has no text."""

    def abort(self, request_id: str) -> None:
        """Take no notice: its readers close their streams."""

    async def close(self) -> None:
        """Do nothing: it holds nothing."""


def build_paced(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> PacedStage:
    """Return the stage, whatever is asked for; a `StageBuilder`."""
    return PacedStage(publish)


def age_s(chunk: AudioChunk) -> float:
    """Return how long ago a chunk was made, in a process of this host."""
    made_s: float = chunk.samples[:2].view(np.float64)[0]
    return time.monotonic() - made_s


def stage_cpu_s(chunk: AudioChunk) -> float:
    """Return the CPU time that the stage's process had used when it made a chunk."""
    return float(chunk.samples[2:4].view(np.float64)[0])


def _chunk() -> AudioChunk:
    samples = np.zeros(NUM_SAMPLES, np.float32)
    samples[:4].view(np.float64)[:] = time.monotonic(), time.process_time()
    return AudioChunk(samples, 24_000, 4)


def _wake(tick: "asyncio.Future[None]") -> None:
    if not tick.done():
        tick.set_result(None)
