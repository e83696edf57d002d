"""A decoder with look-ahead, groups and conditioning: the audio is that of the whole."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.codec.protocol import PendingAudio
from antiphon.codec.runners import CodecRunner, FusedRunner
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, Samples, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CacheShape, CodecChunk, StepOutput, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import Done, HostRunner, PendingStep, Runner
from tests.clock import Clock
from tests.engine.turns import has_work, read_frames

LOOK_AHEAD, GROUP = 2, 3
RATIO = 2  # samples per frame


@dataclass(slots=True)
class Row:
    """A stream: how loud it is, and the sum of its groups so far, modulo a prime."""

    scale: float = np.nan  # never reset means never right
    total: float = 0.0


class FlowDecoder:
    """Audio of a frame: it, the frames after it, its group's sum and that of all groups before.

    All numbers are small and whole, so that sums are exact in any order.
    """

    sample_rate_hz = 25
    samples_per_frame = RATIO
    look_ahead_frames = LOOK_AHEAD
    group_frames = GROUP
    max_slots = 8

    def __init__(self, chunk_sizes: tuple[int, ...] = (3, 12), batch_chunks: int = 1) -> None:
        self.chunk_sizes = chunk_sizes
        self.batch_chunks = batch_chunks
        self.num_replayed = 0
        self.num_flushed = 0

    def open(self, num_slots: int) -> list[Row]:
        return [Row() for _ in range(num_slots)]

    def on_stream(self, state: list[Row]) -> AbstractContextManager[object]:
        return nullcontext()

    def reset(self, state: list[Row], slot: int, conditioning: Any = None) -> None:
        state[slot] = Row(float(conditioning["scale"][0]))

    def prime(self, state: list[Row], slot: int, frames: NDArray[np.int64]) -> None:
        self.decode(frames, 0, state[slot])

    def replay(
        self, state: list[Row], slot: int, frames: NDArray[np.int64], num_ahead: int = 0
    ) -> None:
        self.num_replayed += 1
        self.decode(frames, num_ahead, state[slot])

    def launch(
        self, chunks: Sequence[CodecChunk], frame_store: NDArray[np.int64], state: list[Row]
    ) -> PendingAudio:
        audio = {}
        assert self.batch_chunks == 1 or len(chunks) <= self.batch_chunks
        for each in chunks:
            read_to = each.start + each.num_frames + LOOK_AHEAD
            if each.end is not None:
                self.num_flushed += each.start + each.num_frames >= each.end
                read_to = min(read_to, each.end)
            places = np.arange(each.start, read_to) % frame_store.shape[1]
            num_ahead = max(0, len(places) - each.num_frames)
            audio[each.slot] = self.decode(
                frame_store[each.slot, places], num_ahead, state[each.slot]
            )
        return Done(audio)

    def decode(self, frames: NDArray[np.int64], num_ahead: int, row: Row) -> Samples:
        num_frames = len(frames) - num_ahead
        padded = np.pad(frames[:, 0], (0, LOOK_AHEAD))
        samples: list[float] = []
        for start in range(0, num_frames, GROUP):
            group = padded[start : min(start + GROUP, num_frames)]
            for number in range(start, start + len(group)):
                window = padded[number : number + 1 + LOOK_AHEAD] @ [1, 3, 5]
                value = row.scale * (window + group.sum() + row.total)
                samples += [value, -value]
            row.total = (7 * row.total + float(group @ np.arange(1, len(group) + 1))) % 97
        return np.array(samples, np.float32)

    def close(self) -> None:
        """Nothing to free."""


class Counter(HostRunner[list[int]]):
    """Makes frames from the seed and their number, as many as the prompt says."""

    def __init__(self, num_slots: int, cache: CacheShape | None = None) -> None:
        super().__init__(num_slots)
        self.cache = cache

    def start(self, prompt: Prompt, frames: Sequence[NDArray[Any]]) -> list[int]:
        return [prompt.seed, prompt.data, len(frames)]

    def append(self, state: list[int], piece: Piece) -> None:
        raise AssertionError("the text is complete")

    def next_frame(self, state: list[int]) -> NDArray[Any] | None:
        seed, num_frames, number = state
        state[2] += 1
        return None if number == num_frames else frame(seed, number)


@dataclass(frozen=True, slots=True)
class LateStep:
    """A step that is never done before it is waited for, so that the next is launched first."""

    step: PendingStep
    is_done: bool = False

    def wait(self) -> None:
        self.step.wait()

    def result(self) -> StepOutput:
        return self.step.result()


class Fused(FusedRunner):
    """Runs on a device that the host is one step ahead of."""

    def launch(self, plan: StepPlan) -> Any:
        return LateStep(super().launch(plan))


class Apart(CodecRunner):
    """The same, for frames of another stage."""

    def launch(self, plan: StepPlan) -> Any:
        return LateStep(super().launch(plan))


def frame(seed: int, number: int) -> NDArray[np.int64]:
    return np.array([(seed * 31 + number * number * 7) % 23])


def frames(seed: int, num_frames: int) -> NDArray[np.int64]:
    return np.array([frame(seed, number) for number in range(num_frames)]).reshape(-1, 1)


def prompt(seed: int, num_frames: int, **changes: Any) -> Prompt:
    conditioning = {"scale": np.array([1.0 + seed])}
    return Prompt(data=num_frames, num_tokens=1, seed=seed, conditioning=conditioning, **changes)


def whole(seed: int, num_frames: int) -> list[float]:
    """Return a stream's samples, decoded alone and in one piece."""
    return [*map(float, FlowDecoder().decode(frames(seed, num_frames), 0, Row(1.0 + seed)))]


class Listeners:
    """An engine core, and what has been heard of each of its requests."""

    def __init__(self, runner: Runner) -> None:
        self.clock = Clock()
        self.core = EngineCore(runner, clock=self.clock)
        self.heard: dict[str, list[float]] = {}
        self.ended: dict[str, Ended] = {}

    def add(self, prompt: Prompt, resumed: Iterable[Any] = ()) -> str:
        request = EngineRequest(f"{len(self.heard)}", prompt)
        request.resume([*resumed])
        self.core.scheduler.add(request)
        self.heard[request.id] = []
        return request.id

    def step(self) -> None:
        self.clock.now_s += 0.001 if has_work(self.core) else 0.02
        for request_id, event in self.core.step():
            if isinstance(event, AudioChunk):
                self.heard[request_id] += event.samples.tolist()
                read_frames(self.core.scheduler, request_id, event.num_frames)
            elif isinstance(event, Ended):
                self.ended[request_id] = event

    def run(self) -> None:
        for _ in range(5000):
            if not self.core.scheduler.num_live:
                break
            self.step()
        for _ in range(3):
            self.step()
        assert not self.core.scheduler.num_live
        self.core.scheduler.check_integrity()
        assert not has_work(self.core)


LENGTHS = st.lists(st.integers(0, 150), min_size=1, max_size=6)
SIZES = st.sampled_from([(3,), (3, 12), (6, 24), (9, 18, 36)])


@settings(max_examples=25, deadline=None)
@given(LENGTHS, SIZES, st.one_of(st.none(), st.integers(1, 40)), st.integers(1, 4))
@example([7, 8, 6], (3, 12), 9, 2)  # two ends, and a part of a chunk that cannot wait
def test_streams_in_company_are_each_the_whole(
    lengths: list[int], sizes: tuple[int, ...], max_frames: int | None, batch_chunks: int
) -> None:
    decoder = FlowDecoder(sizes, batch_chunks)
    listeners = Listeners(Fused(Counter(3), decoder))
    sampling = Sampling(max_frames=max_frames)
    for seed, length in enumerate(lengths):
        listeners.add(prompt(seed, length, sampling=sampling))
    listeners.run()
    made = [length if max_frames is None else min(length, max_frames) for length in lengths]
    for seed, length in enumerate(made):
        assert listeners.heard[f"{seed}"] == whole(seed, length)
    assert decoder.num_flushed == sum(length > 0 for length in made)


@settings(max_examples=25, deadline=None)
@given(LENGTHS, SIZES, st.lists(st.integers(0, 30), min_size=1, max_size=20), st.integers(1, 4))
def test_frames_of_another_stage_become_the_whole(
    lengths: list[int], sizes: tuple[int, ...], pauses: list[int], batch_chunks: int
) -> None:
    listeners = Listeners(Apart(FlowDecoder(sizes, batch_chunks), 3))
    for seed, length in enumerate(lengths):
        listeners.add(prompt(seed, length, num_frames_allowed=0))
    for number in range(max(lengths) + 1):
        for seed, length in enumerate(lengths):
            if number < length:
                piece = Piece(data=frame(seed, number), num_frames_allowed=number + 1)
            elif number == length:
                piece = Piece(data=None, num_frames_allowed=None)
            else:
                continue
            listeners.core.scheduler.append(f"{seed}", piece)
            listeners.core.wake()
        for _ in range(pauses[number % len(pauses)]):
            listeners.step()
    listeners.run()
    for seed, length in enumerate(lengths):
        assert listeners.heard[f"{seed}"] == whole(seed, length)


@pytest.mark.parametrize("batch_chunks", [1, 2])
def test_preempted_requests_go_on_exactly(batch_chunks: int) -> None:
    decoder = FlowDecoder((3, 12), batch_chunks)
    cache = CacheShape(num_blocks=30, block_positions=4, max_positions=100)
    listeners = Listeners(Fused(Counter(4, cache), decoder))
    lengths = [80, 70, 90, 61, 5, 77]
    for seed, length in enumerate(lengths):
        listeners.add(prompt(seed, length, num_positions=4))
    listeners.run()
    assert decoder.num_replayed
    for seed, length in enumerate(lengths):
        assert listeners.heard[f"{seed}"] == whole(seed, length)


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("num_made", [*range(1, 12), 40])
def test_a_resumed_request_goes_on_after_its_frames(num_made: int, is_apart: bool) -> None:
    runner = Apart(FlowDecoder(), 1) if is_apart else Fused(Counter(1), FlowDecoder())
    listeners = Listeners(runner)
    allowed = 0 if is_apart else None
    request_id = listeners.add(prompt(5, 40, num_frames_allowed=allowed), frames(5, num_made))
    if is_apart:  # all frames are given again, as after a preemption
        for number, each in enumerate(frames(5, 40), start=1):
            piece = Piece(data=each, num_frames_allowed=number)
            listeners.core.scheduler.append(request_id, piece)
        listeners.core.scheduler.append(request_id, Piece(data=None, num_frames_allowed=None))
    listeners.run()
    assert listeners.heard["0"] == whole(5, 40)[num_made * RATIO :]


@pytest.mark.parametrize("num_steps", range(0, 40, 3))
def test_cancelling_frees_all_and_disturbs_none(num_steps: int) -> None:
    listeners = Listeners(Fused(Counter(2), FlowDecoder()))
    for seed in range(3):
        listeners.add(prompt(seed, 30))
    for _ in range(num_steps):
        listeners.step()
    listeners.core.scheduler.abort("1")
    listeners.run()
    reference: Mapping[str, list[float]] = {f"{seed}": whole(seed, 30) for seed in range(3)}
    assert listeners.heard["0"] == reference["0"]
    assert listeners.heard["2"] == reference["2"]
    assert listeners.heard["1"] == reference["1"][: len(listeners.heard["1"])]
