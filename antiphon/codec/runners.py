"""Runners with a codec: beside the model on one device, or on a device of its own."""

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from antiphon.codec.protocol import (
    BatchDecoder,
    BatchPriming,
    ElasticDecoder,
    PassDecoder,
    PendingAudio,
    StreamingDecoder,
)
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.engine.plan import CacheShape, CodecReplay, CodecShape, Start, StepOutput, StepPlan
from antiphon.engine.runner import HostRunner, PendingStep, Runner


class FrameSource(Runner, Protocol):
    """What both `HostRunner` and `ModelRunner` are: frames can be read where they were made."""

    @property
    def frame_store(self) -> Any:
        """Its slots' latest frames; see `StreamingDecoder.launch`. ``None``: there are none."""

    def on_stream(self) -> AbstractContextManager[object]:
        """Return a context in which work is put where the runner puts its own."""


@dataclass(frozen=True, slots=True)
class _FusedStep:
    frames: PendingStep
    audio: PendingAudio | None

    @property
    def is_done(self) -> bool:
        return self.frames.is_done and (self.audio is None or self.audio.is_done)

    def wait(self) -> None:
        self.frames.wait()
        if self.audio is not None:
            self.audio.wait()

    def result(self) -> StepOutput:
        output = self.frames.result()
        return output if self.audio is None else replace(output, chunks=self.audio.result())


class FusedRunner:
    """A `Runner` that decodes too: each step makes its frames, then its chunks, on one stream.

    A request's slot is also its row of the codec's state. The context of a voice is decoded first:
    a step primes the rows that it decodes, or else one row. What had become audio before a request
    came into its slot follows in parts (`CodecReplay`).
    """

    def __init__(self, runner: FrameSource, decoder: StreamingDecoder) -> None:
        self.num_slots = runner.num_slots
        self.row_buckets = runner.row_buckets
        self._runner = runner
        self._decoder = decoder
        with runner.on_stream():
            self._state = decoder.open(runner.num_slots)
        self._contexts: dict[int, NDArray[Any]] = {}
        self._decoded: dict[int, Sequence[Any]] = {}

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
            pass_frames=decoder.pass_frames if isinstance(decoder, PassDecoder) else 1,
            late_frames=decoder.late_frames if isinstance(decoder, ElasticDecoder) else 0,
            batch_chunks=decoder.batch_chunks if isinstance(decoder, BatchDecoder) else 1,
        )

    def on_stream(self) -> AbstractContextManager[object]:
        """Return the context in which steps are launched."""
        return self._runner.on_stream()

    def launch(self, plan: StepPlan) -> _FusedStep:
        with self.on_stream():
            frames = self._runner.launch(plan)
            for slot in plan.releases:
                self._contexts.pop(slot, None)
                self._decoded.pop(slot, None)
            for start in plan.starts:
                self._begin(start)
            decoded = {each.slot for each in plan.codec_chunks}
            self._prime(decoded.union(each.slot for each in plan.codec_replays))
            self._replay(plan.codec_replays)
            audio = None
            store = self._runner.frame_store
            if plan.codec_chunks and store is not None:
                audio = self._decoder.launch(plan.codec_chunks, store, self._state)
        return _FusedStep(frames, audio)

    def close(self) -> None:
        self._runner.close()
        self._decoder.close()

    def _begin(self, start: Start) -> None:
        """Make a row fresh, and note what it is to be given before it goes on."""
        prompt, slot = start.prompt, start.slot
        self._decoder.reset(self._state, slot, prompt.conditioning)
        if prompt.context_frames is not None:
            self._contexts[slot] = prompt.context_frames
        if start.num_frames_decoded:
            num_read = start.num_frames_decoded + self._decoder.look_ahead_frames
            self._decoded[slot] = start.frames[:num_read]

    def _prime(self, due: set[int]) -> None:
        """Prime the rows that are decoded for; if none is, the row that waits longest."""
        slots = [slot for slot in self._contexts if slot in due] or [*self._contexts][:1]
        if not slots:
            return
        contexts = {slot: self._contexts.pop(slot) for slot in slots}
        if isinstance(self._decoder, BatchPriming):
            self._decoder.prime_rows(self._state, contexts)
            return
        for slot, frames in contexts.items():
            self._decoder.prime(self._state, slot, frames)

    def _replay(self, replays: Sequence[CodecReplay]) -> None:
        """Decode frames again of rows that are primed."""
        for each in replays:
            frames = self._decoded[each.slot][
                each.start : each.end + self._decoder.look_ahead_frames
            ]
            num_ahead = len(frames) - (each.end - each.start)
            self._decoder.replay(self._state, each.slot, np.stack(frames), num_ahead)


@dataclass(slots=True)
class _Arrived:
    """Frames of a request that are still to be handed on, and how many come a second time."""

    num_repeated: int
    frames: deque[NDArray[Any] | None] = field(default_factory=deque)


class FrameRelay(HostRunner[_Arrived]):
    """A `Runner` whose frames arrive as pieces of its requests instead of being computed.

    A piece's data is a frame, of any shape, or ``None`` after the last.
    """

    def start(self, prompt: Prompt, frames: Sequence[NDArray[Any]]) -> _Arrived:
        return _Arrived(len(frames))  # after a preemption all pieces are given again

    def append(self, state: _Arrived, piece: Piece) -> None:
        if state.num_repeated:
            state.num_repeated -= 1
        else:
            state.frames.append(piece.data)

    def next_frame(self, state: _Arrived) -> NDArray[Any] | None:
        # A step may be planned before it is known that the one before took the end.
        return state.frames.popleft() if state.frames else None


class CodecRunner(FusedRunner):
    """A `Runner` that decodes the frames of another stage.

    The scheduler plans for it as for a model with its codec: admission, slots, priming and
    preemption are the same, and chunks follow the playback clock.
    """

    def __init__(self, decoder: StreamingDecoder, num_slots: int) -> None:
        """Open the decoder with ``num_slots``, or with as many as it has room for."""
        if isinstance(decoder, BatchDecoder):
            num_slots = min(num_slots, decoder.max_slots)
        super().__init__(FrameRelay(num_slots), decoder)

    @property
    def codec(self) -> CodecShape:
        return replace(super().codec, has_upstream=True)

    def on_stream(self) -> AbstractContextManager[object]:
        return self._decoder.on_stream(self._state)
