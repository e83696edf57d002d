"""A codec whose frames arrive from elsewhere: exact, and by the playback clock of its listeners."""

from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.codec.host.row_decoder import RowDecoder
from antiphon.codec.runners import CodecRunner
from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, Samples
from antiphon.engine.core import EngineCore
from antiphon.engine.request import EngineRequest
from tests.clock import Clock
from tests.engine.strict_device import POLICIES
from tests.engine.turns import has_work, read_frames

FRAME_S = 0.08
STEP_S = 0.001
"""Of the codec; frames arrive less often."""


class Echo(RowDecoder):
    """Two samples per frame, each half the one before plus the frame's number."""

    sample_rate_hz = 25
    samples_per_frame = 2

    def __init__(self) -> None:
        self.num_decoded = 0
        self.num_replayed = 0

    def open(self, num_slots: int) -> Samples:
        return np.full(num_slots, np.nan, np.float32)  # never reset means never right

    def reset(self, state: Samples, slot: int, conditioning: None = None) -> None:
        state[slot] = 0

    def replay(
        self, state: Samples, slot: int, frames: NDArray[np.int64], num_ahead: int = 0
    ) -> None:
        self.num_replayed += len(frames)
        super().replay(state, slot, frames)

    def decode_row(self, frames: NDArray[np.int64], state: Samples, slot: int) -> Samples:
        samples = []
        for number in np.repeat(frames[:, 0], 2):
            state[slot] = state[slot] / 2 + number
            samples.append(state[slot])
        return np.array(samples)

    def close(self) -> None:
        """Nothing to free."""


def whole(numbers: list[int], context: list[int] | None = None) -> list[float]:
    """Return the samples of a stream that is alone and decoded in one piece."""
    echo, state = Echo(), np.zeros(1, np.float32)
    if context:
        echo.decode_row(np.array(context)[:, None], state, 0)
    return echo.decode_row(np.array(numbers)[:, None], state, 0).tolist() if numbers else []


@dataclass
class Stage:
    """An engine with a codec, the frames on their way to it, and the listeners."""

    num_slots: int = 2
    policy: PlaybackPolicy | None = None
    echo: Echo = field(default_factory=Echo)
    clock: Clock = field(default_factory=Clock)
    core: EngineCore = field(init=False)
    heard: dict[str, list[tuple[float, AudioChunk]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    ends: dict[str, Ended] = field(default_factory=dict)
    due: list[tuple[float, int, str, int | None, int | None]] = field(default_factory=list)
    order: "count[int]" = field(default_factory=count)

    def __post_init__(self) -> None:
        runner = CodecRunner(self.echo, self.num_slots)
        self.core = EngineCore(runner, policy=self.policy, clock=self.clock)

    def open(
        self,
        name: str,
        numbers: list[int],
        *,
        at_s: float = 0.0,
        every_s: float = 0.02,
        is_live: bool = True,
        is_complete: bool = True,
        context: list[int] | None = None,
        first_chunk_frames: int | None = None,
    ) -> None:
        context_frames = np.array(context)[:, None] if context else None
        prompt = Prompt(
            data=None,
            num_tokens=1,
            seed=0,
            num_frames_allowed=0,
            context_frames=context_frames,
            first_chunk_frames=first_chunk_frames,
        )
        self.core.scheduler.add(EngineRequest(name, prompt, is_live))
        self.core.wake()
        for index, number in enumerate(numbers, start=1):
            heappush(self.due, (at_s, next(self.order), name, number, index))
            at_s += every_s
        if is_complete:
            heappush(self.due, (at_s, next(self.order), name, None, None))

    def run(self, end_s: float = np.inf) -> None:
        """Run until nothing is left to do and no frame is to come, or until ``end_s``."""
        while self.clock.now_s < end_s:
            wait_s = self.core.wait_s()
            if wait_s is None and not self.due:
                return
            until_s = self.clock.now_s + (np.inf if wait_s is None else wait_s)
            if self.due and self.due[0][0] <= until_s:
                at_s, _, name, number, allowed = heappop(self.due)
                self.clock.now_s = max(self.clock.now_s, at_s)
                data = None if number is None else np.array([number])
                self.core.scheduler.append(name, Piece(data=data, num_frames_allowed=allowed))
                self.core.wake()
                continue
            self.clock.now_s = until_s
            events = self.core.step()
            self.clock.now_s += STEP_S
            for name, event in events:
                if isinstance(event, Ended):
                    self.ends[name] = event
                elif isinstance(event, AudioChunk):
                    self.heard[name].append((self.clock.now_s, event))
                    read_frames(self.core.scheduler, name, event.num_frames)
            self.core.scheduler.check_integrity()

    def samples(self, name: str) -> list[float]:
        return [float(each) for _, chunk in self.heard[name] for each in chunk.samples]

    def sizes(self, name: str) -> list[int]:
        return [chunk.num_frames for _, chunk in self.heard[name]]

    def gap_s(self, name: str) -> float:
        """Return the silence in the middle of a stream that is played as it arrives."""
        (silent_s, first), *rest = self.heard[name]
        silent_s += first.duration_s
        gap_s = 0.0
        for now_s, chunk in rest:
            gap_s += max(now_s - silent_s, 0.0)
            silent_s = max(now_s, silent_s) + chunk.duration_s
        return gap_s


streams = st.lists(
    st.tuples(
        st.lists(st.integers(0, 99), max_size=40),
        st.floats(0.0, 1.0),
        st.sampled_from([0.0, 0.001, 0.02, 0.2]),
        st.booleans(),
        st.none() | st.lists(st.integers(0, 99), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(streams, st.integers(1, 4), POLICIES)
def test_each_stream_is_what_it_would_be_alone_and_in_one_piece(
    requests: list[tuple[list[int], float, float, bool, list[int] | None]],
    num_slots: int,
    policy: PlaybackPolicy,
) -> None:
    stage = Stage(num_slots, policy)
    for index, (numbers, at_s, every_s, is_live, context) in enumerate(requests):
        name = f"r{index}"
        stage.open(name, numbers, at_s=at_s, every_s=every_s, is_live=is_live, context=context)
    stage.run()
    for index, (numbers, _, _, _, context) in enumerate(requests):
        assert stage.samples(f"r{index}") == whole(numbers, context)
        assert stage.ends[f"r{index}"] == Ended("stop")


def test_a_request_that_lost_its_slot_goes_on_exactly() -> None:
    stage = Stage(2)
    numbers = [*range(60)]
    for name in ("offline", "other"):
        stage.open(name, numbers, is_live=False)
    stage.run(end_s=0.5)
    stage.open("live", numbers, at_s=0.5)
    stage.run()
    assert stage.echo.num_replayed > 0
    for name in ("offline", "other", "live"):
        assert stage.samples(name) == whole(numbers)


@pytest.mark.parametrize("every_s", [0.004, 0.02, 0.05])
def test_chunks_grow_with_what_the_listener_has_left_and_leave_no_gap(every_s: float) -> None:
    stage = Stage(8)
    for index in range(8):
        stage.open(f"r{index}", [*range(300)], at_s=0.1 * index, every_s=every_s)
    stage.run()
    for index in range(8):
        sizes = stage.sizes(f"r{index}")
        assert sizes[0] == 1
        assert max(sizes) == 16
        assert len(sizes) < 60, "frames are decoded one by one"
        assert stage.gap_s(f"r{index}") == 0.0


def test_frames_are_decoded_in_time_though_none_follows_them() -> None:
    stage = Stage()
    stage.open("paused", [*range(50)], is_complete=False)
    stage.open("begun", [1, 2], is_complete=False, first_chunk_frames=4)
    stage.run()
    assert stage.samples("paused") == whole([*range(50)])
    assert stage.gap_s("paused") == 0.0
    assert stage.samples("begun") == whole([1, 2])
    assert stage.heard["begun"][0][0] < 0.2
    assert not stage.ends


def test_frames_for_a_file_are_decoded_many_at_a_time() -> None:
    stage = Stage()
    stage.open("file", [*range(64)], is_live=False)
    stage.run()
    assert stage.sizes("file") == [16, 16, 16, 16]


def test_an_aborted_request_frees_its_slot_for_the_next() -> None:
    stage = Stage(1)
    stage.open("long", [*range(20)], is_complete=False)
    stage.open("next", [1, 2, 3], at_s=1.0)
    stage.run(end_s=2.0)
    assert not stage.heard["next"]
    assert stage.core.scheduler.abort("long")
    stage.run()
    assert stage.samples("next") == whole([1, 2, 3])
    assert not has_work(stage.core)
    assert stage.core.scheduler.stats.frames == 0, "frames are counted where they are made"
