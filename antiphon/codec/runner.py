"""Serves many streams with one batched decoder: what arrives together is decoded together."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.codec.protocol import StreamingDecoder
from antiphon.codec.slots import DecoderStream, SlotPool
from antiphon.concurrency import Workers
from antiphon.errors import EngineError
from antiphon.types import Samples

logger = logging.getLogger(__name__)

_PRIME_FRAMES = 25
"""Priming frames that are decoded at a time: others get their turn in between."""


def _forget(lead: "asyncio.Future[Samples]") -> None:
    """Take a failure note of what nobody waits for: the stream's next call raises it too."""
    if not lead.cancelled():
        lead.exception()


@dataclass(eq=False, slots=True)
class _Job:
    stream: DecoderStream
    frames: NDArray[Any]
    samples: "asyncio.Future[Samples]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class BatchedDecoder:
    """Owns a decoder, its state and the thread that it runs in; lives on one event loop.

    If the decoder fails, its state cannot be trusted any more: every waiting caller is told, and
    so is every later one.
    """

    def __init__(self, decoder: StreamingDecoder, num_slots: int, *, name: str = "decoder") -> None:
        self._decoder = decoder
        self._state = decoder.open(num_slots)
        self._slots = SlotPool(num_slots)
        self._workers = Workers(name, num_threads=1)
        self._waiting: deque[_Job] = deque()
        self._running: tuple[_Job, ...] = ()
        self._pump: asyncio.Task[None] | None = None
        self._failure: str | None = None

    @property
    def sample_rate_hz(self) -> int:
        return self._decoder.sample_rate_hz

    @property
    def samples_per_frame(self) -> int:
        return self._decoder.samples_per_frame

    @property
    def num_free_slots(self) -> int:
        return self._slots.num_free

    @property
    def failure(self) -> str | None:
        """What broke the decoder, or ``None`` while it works."""
        return self._failure

    def open(self) -> DecoderStream:
        """Begin a stream; whoever opens it closes it."""
        return DecoderStream()

    def prime(self, stream: DecoderStream, frames: NDArray[Any]) -> None:
        """Prime a fresh stream with frames, ``[num_frames, ...]``, whose audio is not used.

        Returns at once; what is decoded later comes after them.
        """
        assert stream.is_open
        for start in range(0, len(frames), _PRIME_FRAMES):
            job = _Job(stream, frames[start : start + _PRIME_FRAMES])
            job.samples.add_done_callback(_forget)
            self._waiting.append(job)
        self._wake()

    async def decode(self, stream: DecoderStream, frames: Sequence[Any]) -> Samples:
        """Decode the next frames of a stream, as soon as there is a slot for it.

        One call at a time per stream. A stream whose call was cancelled can only be closed.

        Raises:
            EngineError: the decoder has failed or was shut down.
        """
        assert stream.is_open
        if self._failure is not None:
            raise EngineError(self._failure)
        job = _Job(stream, np.stack(frames))
        self._waiting.append(job)
        self._wake()
        try:
            return await job.samples
        finally:
            if job in self._waiting:
                self._waiting.remove(job)

    def close(self, stream: DecoderStream) -> None:
        """End a stream and free its slot; does nothing if it is closed already."""
        stream.is_open = False
        self._waiting = deque(job for job in self._waiting if job.stream is not stream)
        if not any(job.stream is stream for job in self._running):
            self._release(stream)
            self._wake()

    async def shut_down(self) -> None:
        """Fail whoever waits, let the batch under way end, and free the decoder."""
        self._fail("The decoder has been shut down.", ())
        if self._pump is not None:
            await asyncio.wait([self._pump])
        self._workers.close()
        self._decoder.close()

    def check_integrity(self) -> None:
        """Assert that slots are accounted for and that nobody waits for nothing."""
        self._slots.check_integrity()
        if self._pump is None:
            assert not self._running
            assert not self._waiting or not self._slots.num_free

    def _wake(self) -> None:
        """Start the pump; it begins when the loop has run all that is ready, whose jobs join."""
        if self._pump is None and self._waiting:
            self._pump = asyncio.get_running_loop().create_task(self._work())
            self._pump.add_done_callback(self._stopped)

    async def _work(self) -> None:
        try:
            while batch := self._next_batch():
                self._running = batch
                rows = await self._workers.run(self._decode_batch, batch)
                self._running = ()
                for job, samples in zip(batch, rows, strict=True):
                    if not job.samples.done():  # else its caller has left
                        job.samples.set_result(samples)
                self._release_closed(batch)
        finally:
            self._pump = None
            if self._running:  # refuse work from now on; `_stopped` will know why
                self._failure = "The decoder has failed."

    def _stopped(self, pump: "asyncio.Task[None]") -> None:
        if self._pump is pump:  # cancelled before its first step
            self._pump = None
        if pump.cancelled():
            self._fail("The decoder was cut off.", self._running)
        elif (error := pump.exception()) is not None:
            logger.error("the decoder failed", exc_info=error)
            self._fail(f"The decoder failed: {type(error).__name__}: {error}", self._running)

    def _fail(self, reason: str, lost: tuple[_Job, ...]) -> None:
        """Refuse work from now on, and tell those whose jobs are lost or wait."""
        self._failure = reason
        for job in (*lost, *self._waiting):
            if not job.samples.done():
                job.samples.set_exception(EngineError(reason))
        self._waiting.clear()
        if lost:
            self._running = ()
            self._release_closed(lost)

    def _next_batch(self) -> tuple[_Job, ...]:
        """Take the first job that can run, and all that have as many frames.

        Of a stream's jobs only the earliest is looked at: they run in order.
        """
        batch: list[_Job] = []
        seen: set[DecoderStream] = set()
        for job in tuple(self._waiting):
            is_later = job.stream in seen
            seen.add(job.stream)
            has_left = job.samples.done()
            if is_later or has_left or (batch and len(job.frames) != len(batch[0].frames)):
                continue
            if job.stream.slot is None:
                job.stream.slot = self._slots.take()
            if job.stream.slot is not None:
                self._waiting.remove(job)
                batch.append(job)
        return tuple(batch)

    def _decode_batch(self, batch: tuple[_Job, ...]) -> list[Samples]:
        """Run in the decoder's thread."""
        first = batch[0].frames
        frames = np.zeros((self._slots.num_slots, *first.shape), first.dtype)
        active = np.zeros(self._slots.num_slots, np.bool_)
        for job in batch:
            slot = job.stream.slot
            assert slot is not None
            if job.stream.is_fresh:
                self._decoder.reset(self._state, slot)
                job.stream.is_fresh = False
            frames[slot], active[slot] = job.frames, True
        samples = self._decoder.decode(frames, self._state, active)
        return [samples[job.stream.slot].copy() for job in batch]

    def _release_closed(self, batch: tuple[_Job, ...]) -> None:
        for job in batch:
            if not job.stream.is_open:
                self._release(job.stream)

    def _release(self, stream: DecoderStream) -> None:
        if stream.slot is not None:
            self._slots.give_back(stream.slot)
            stream.slot = None
