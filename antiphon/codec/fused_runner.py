"""Model and codec of one device as one runner: frames reach the codec without visiting the host."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from antiphon.codec.protocol import PendingAudio, StreamingDecoder
from antiphon.engine.plan import CacheShape, CodecShape, Start, StepOutput, StepPlan
from antiphon.engine.runner import PendingStep, Runner


class FrameSource(Runner, Protocol):
    """What both `HostRunner` and `ModelRunner` are: frames can be read where they were made."""

    @property
    def frame_store(self) -> Any:
        """Its slots' latest frames; see `StreamingDecoder.launch`. ``None``: there are none."""
        ...

    def on_stream(self) -> AbstractContextManager[object]:
        """Return a context in which work is put where the runner puts its own."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Priming:
    """What a row is primed with: a voice's frames, then those that had become audio before.

    The last ``num_ahead`` of these are their look-ahead.
    """

    context: NDArray[Any] | None
    heard: Sequence[Any]
    num_ahead: int


@dataclass(frozen=True, slots=True)
class _FusedStep:
    """A step in flight: frames, then audio."""

    frames: PendingStep
    audio: PendingAudio | None

    @property
    def is_done(self) -> bool:
        return self.frames.is_done and (self.audio is None or self.audio.is_done)

    def result(self) -> StepOutput:
        output = self.frames.result()
        return output if self.audio is None else replace(output, chunks=self.audio.result())


class FusedRunner:
    """A `Runner` that decodes too: each step makes its frames, then its chunks, on one stream.

    A request's slot is also its row of the codec's state. If there are frames that the codec must
    have decoded before a row's first chunk (a voice's context, then what had become audio before a
    request lost its slot), the row is primed with them. One row is primed in a step, so that the
    others do not wait; unless a row's first chunk is due, which goes before everything.

    Attributes:
        num_slots: requests that can run at once.
        row_buckets: of the model's steps.
    """

    def __init__(self, runner: FrameSource, decoder: StreamingDecoder) -> None:
        self.num_slots = runner.num_slots
        self.row_buckets = runner.row_buckets
        self._runner = runner
        self._decoder = decoder
        with runner.on_stream():
            self._state = decoder.open(runner.num_slots)
        self._primings: dict[int, _Priming] = {}

    @property
    def cache(self) -> CacheShape | None:
        return self._runner.cache

    @property
    def codec(self) -> CodecShape:
        decoder = self._decoder
        return CodecShape(
            decoder.samples_per_frame,
            decoder.sample_rate_hz,
            decoder.chunk_sizes,
            decoder.look_ahead_frames,
            decoder.group_frames,
        )

    def on_stream(self) -> AbstractContextManager[object]:
        """Return the context in which steps are launched."""
        return self._runner.on_stream()

    def launch(self, plan: StepPlan) -> _FusedStep:
        with self.on_stream():
            frames = self._runner.launch(plan)
            for slot in plan.releases:
                self._primings.pop(slot, None)
            for start in plan.starts:
                self._begin(start)
            self._prime({each.slot for each in plan.codec_chunks})
            audio = None
            store = self._runner.frame_store
            if plan.codec_chunks and store is not None:
                audio = self._decoder.launch(plan.codec_chunks, store, self._state)
        return _FusedStep(frames, audio)

    def close(self) -> None:
        self._runner.close()
        self._decoder.close()

    def _begin(self, start: Start) -> None:
        """Make a row fresh, and note what it is to be primed with."""
        prompt, num_heard = start.prompt, start.num_frames_decoded
        self._decoder.reset(self._state, start.slot, prompt.conditioning)
        if prompt.context_frames is not None or num_heard:
            num_read = num_heard + self._decoder.look_ahead_frames if num_heard else 0
            heard = start.frames[:num_read]
            priming = _Priming(prompt.context_frames, heard, len(heard) - num_heard)
            self._primings[start.slot] = priming

    def _prime(self, due: set[int]) -> None:
        """Prime the rows whose chunks are due; if none is, the row that waits longest."""
        slots = [slot for slot in self._primings if slot in due] or [*self._primings][:1]
        for slot in slots:
            priming = self._primings.pop(slot)
            if priming.context is not None:
                self._decoder.prime(self._state, slot, priming.context)
            if priming.heard:
                self._decoder.replay(self._state, slot, np.stack(priming.heard), priming.num_ahead)
