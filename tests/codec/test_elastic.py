"""A decoder of which some frames become no audio, others late: it is that of the whole."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.codec.protocol import PendingAudio
from antiphon.contracts.prompt import Piece
from antiphon.contracts.types import AudioChunk, Samples, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CacheShape, CodecChunk
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import Done
from antiphon.fabric.replicas.resume_log import ResumeLog
from antiphon.stages.base import StageRequest
from tests.clock import Clock
from tests.codec.test_look_ahead import (
    LENGTHS,
    Apart,
    Counter,
    Fused,
    Listeners,
    frame,
    frames,
    prompt,
)

DELAY = 3
RATIO = 2  # samples of a frame of audio


@dataclass(slots=True)
class Row:
    """A stream: frames of audio that are not heard yet."""

    held: list[int] = field(default_factory=list)


class LateDecoder:
    """Even frames are text; audio of the others comes three frames of audio late.

    Chunks past the end are what brings the last ones: each of their frames is worth one of audio.
    """

    sample_rate_hz = 25
    samples_per_frame = RATIO
    look_ahead_frames = 0

    def __init__(
        self,
        group_frames: int = 1,
        late_frames: int = DELAY,
        chunk_sizes: tuple[int, ...] | None = None,
    ) -> None:
        self.group_frames = group_frames
        self.late_frames = late_frames
        self.chunk_sizes = chunk_sizes or (group_frames, 2 * group_frames)
        self.launched: list[list[CodecChunk]] = []
        self.num_late = 0
        self.num_replayed = 0

    def open(self, num_slots: int) -> list[Row]:
        return [Row() for _ in range(num_slots)]

    def on_stream(self, state: list[Row]) -> AbstractContextManager[object]:
        return nullcontext()

    def reset(self, state: list[Row], slot: int, conditioning: Any = None) -> None:
        state[slot] = Row()

    def prime(self, state: list[Row], slot: int, frames: NDArray[np.int64]) -> None:
        raise AssertionError("its requests have no context")

    def replay(
        self, state: list[Row], slot: int, frames: NDArray[np.int64], num_ahead: int = 0
    ) -> None:
        assert num_ahead == 0
        self.num_replayed += 1
        self.decode(frames, state[slot])

    def launch(
        self, chunks: Sequence[CodecChunk], frame_store: NDArray[np.int64], state: list[Row]
    ) -> PendingAudio:
        self.launched.append([*chunks])
        audio = {}
        for each in chunks:
            end, row = each.start + each.num_frames, state[each.slot]
            assert each.start % self.group_frames == 0
            stop = end if each.end is None else min(end, each.end)
            places = np.arange(each.start, stop) % frame_store.shape[1]
            samples = self.decode(frame_store[each.slot, places], row)
            num_late = end - max(stop, each.start)
            self.num_late += num_late
            late, row.held = row.held[:num_late], row.held[num_late:]
            audio[each.slot] = np.concatenate((samples, heard(late)))
        return Done(audio)

    def decode(self, frames: NDArray[np.int64], row: Row) -> Samples:
        row.held += [int(each) for each in frames[:, 0] if each % 2]
        ready, row.held = row.held[: -DELAY or None], row.held[-DELAY:]
        if len(row.held) < DELAY:
            ready, row.held = [], ready + row.held
        return heard(ready)

    def close(self) -> None:
        """Nothing to free."""


def heard(numbers: Sequence[int]) -> Samples:
    return np.repeat(np.array(numbers, np.float32), RATIO)


def whole(seed: int, num_frames: int) -> list[float]:
    odd = [int(each) for each in frames(seed, num_frames)[:, 0] if each % 2]
    return [*map(float, heard(odd))]


@settings(max_examples=15, deadline=None)
@given(LENGTHS, st.one_of(st.none(), st.integers(1, 40)))
def test_streams_in_company_are_each_the_whole(lengths: list[int], max_frames: int | None) -> None:
    decoder = LateDecoder(1 + 3 * (len(lengths) % 2))
    listeners = Listeners(Fused(Counter(3), decoder))
    for seed, length in enumerate(lengths):
        listeners.add(prompt(seed, length, sampling=Sampling(max_frames=max_frames)))
    listeners.run()
    made = [length if max_frames is None else min(length, max_frames) for length in lengths]
    for seed, length in enumerate(made):
        assert listeners.heard[f"{seed}"] == whole(seed, length)
    assert decoder.num_late >= DELAY * sum(length > 0 for length in made)


def test_frames_of_another_stage_become_the_whole() -> None:
    listeners = Listeners(Apart(LateDecoder(), 2))
    lengths = [0, 1, 17, 40]
    for seed, length in enumerate(lengths):
        listeners.add(prompt(seed, length, num_frames_allowed=0))
        for number in range(length):
            piece = Piece(data=frame(seed, number), num_frames_allowed=number + 1)
            listeners.core.scheduler.append(f"{seed}", piece)
            listeners.core.wake()
            listeners.step()
        listeners.core.scheduler.append(f"{seed}", Piece(data=None, num_frames_allowed=None))
    listeners.run()
    for seed, length in enumerate(lengths):
        assert listeners.heard[f"{seed}"] == whole(seed, length)


def test_preempted_requests_go_on_exactly() -> None:
    decoder = LateDecoder()
    cache = CacheShape(num_blocks=30, block_positions=4, max_positions=100)
    listeners = Listeners(Fused(Counter(4, cache), decoder))
    lengths = [80, 70, 90, 61, 5, 77]
    for seed, length in enumerate(lengths):
        listeners.add(prompt(seed, length, num_positions=4))
    listeners.run()
    assert decoder.num_replayed
    for seed, length in enumerate(lengths):
        assert listeners.heard[f"{seed}"] == whole(seed, length)


@pytest.mark.parametrize("num_made", [1, 2, 7, 39])
def test_a_resumed_request_goes_on_after_what_its_frames_had_made_certain(num_made: int) -> None:
    listeners = Listeners(Fused(Counter(1), LateDecoder()))
    listeners.add(prompt(5, 40), frames(5, num_made))
    listeners.run()
    before = LateDecoder().decode(frames(5, num_made), Row())
    assert listeners.heard["0"] == whole(5, 40)[len(before) :]


@pytest.mark.parametrize("length", [1, 4, 11, 12])
def test_a_stream_that_is_cut_at_its_end_goes_on_exactly(length: int) -> None:
    """What audio reports of frames says what another engine is to make again."""
    items = list(made_of(length, ()))
    for num_taken in range(1, len(items) + 1):
        delivered = ResumeLog(StageRequest("r", prompt(5, length)), lambda: 0.0)
        taken = [delivered.take(each) for each in items[:num_taken]]
        again = delivered.resumed().resume_frames
        taken += [delivered.take(each) for each in made_of(length, again)]
        chunks = [each for each in taken if isinstance(each, AudioChunk)]
        samples = [sample for each in chunks for sample in each.samples.tolist()]
        assert samples == whole(5, length)
        assert sum(each.num_frames for each in chunks) == length


def made_of(length: int, resumed: Sequence[Any]) -> Iterator[AudioChunk]:
    """Yield the audio of a stream, which brings its frames."""
    core = EngineCore(Fused(Counter(1), LateDecoder(4)), clock=Clock())
    request = EngineRequest("r", prompt(5, length), returns_frames=True)
    request.resume(resumed)
    core.scheduler.add(request)
    while core.scheduler.num_live:
        yield from (event for _, event in core.step() if isinstance(event, AudioChunk))


def test_the_end_of_a_stream_takes_no_longer_than_the_rest_of_it() -> None:
    """Its last audio is spread over steps, in which the others are decoded too."""
    decoder = LateDecoder(2, 23, (2,))
    listeners = Listeners(Fused(Counter(2), decoder))
    for seed, length in enumerate((9, 60)):
        listeners.add(prompt(seed, length))
    listeners.run()
    ended = [step for step in decoder.launched if any(each.end == 9 for each in step)]
    assert len(ended) == 12  # 1 frame and 23 late ones
    assert all(each.num_frames == 2 for step in decoder.launched for each in step)
    assert sum(len(step) == 2 for step in ended) > 4
    assert [listeners.heard[f"{seed}"] for seed in (0, 1)] == [whole(0, 9), whole(1, 60)]


def test_a_listeners_clock_counts_what_is_heard() -> None:
    listeners = Listeners(Fused(Counter(1), LateDecoder()))
    listeners.add(prompt(5, 60))
    request = listeners.core.scheduler._by_id["0"]
    begun_s = None
    while "0" not in listeners.ended:
        listeners.step()
        if begun_s is None and listeners.heard["0"]:
            begun_s = listeners.clock.now_s
        if begun_s is not None and request.codec.num_decoded == request.codec.num_delivered:
            played_s = len(listeners.heard["0"]) / LateDecoder.sample_rate_hz
            assert request.clock.deadline_s == pytest.approx(begun_s + played_s, abs=0.02)
    assert begun_s is not None
