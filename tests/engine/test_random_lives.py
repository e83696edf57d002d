"""Hundreds of random lives over a device that checks every plan: all that comes out is right."""

from collections import defaultdict, deque
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.prompt import Piece
from antiphon.contracts.types import AudioChunk, Ended, FrameReady
from antiphon.engine.plan import CacheShape, CodecShape, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import PendingStep
from antiphon.engine.scheduler import EngineEvent, Scheduler, SchedulerLimits
from antiphon.errors import OverloadedError
from tests.engine.strict_device import CODEC, StrictDevice, Words, frame_value, heard_values, prompt
from tests.engine.turns import read_frames

NUM_SLOTS = 6
LIMITS = SchedulerLimits(max_unread_frames=24, max_prefill_positions=20)


def policy_of(random: Random) -> PlaybackPolicy:
    return PlaybackPolicy(
        comfort_s=0.2,
        first_frames=random.randint(1, 20),
        largest_frames=random.choice((None, 1, 5, 16)),
        spacing=random.choice((2, 4, 9)),
    )


class World:
    """Requests of all kinds, their listeners, and an engine that is a step behind."""

    def __init__(self, seed: int, cache: CacheShape | None, codec: CodecShape | None) -> None:
        self.random = Random(seed)
        self.now_s = 0.0
        self.device = StrictDevice(NUM_SLOTS, cache, codec)
        self.scheduler = Scheduler(
            NUM_SLOTS,
            cache=cache,
            codec=codec,
            limits=LIMITS,
            policy=policy_of(self.random),
            clock=lambda: self.now_s,
        )
        self.words: dict[str, Words] = {}
        self.heard: dict[str, list[Any]] = defaultdict(list)
        self.ends: dict[str, Ended] = {}
        self.limits: dict[str, int | None] = {}
        self.open_text: dict[str, int] = {}
        self.sent: dict[str, list[Any]] = defaultdict(list)
        self.slow: dict[str, int] = {}
        self.decoded: set[str] = set()
        self.in_flight: deque[tuple[StepPlan, PendingStep]] = deque()

    def arrive(self) -> None:
        random, name = self.random, f"r{len(self.words)}"
        voice = random.randrange(3)  # those of one voice begin alike
        num_alike = random.randint(0, 30)
        positions = tuple(voice * 100 + n for n in range(num_alike))
        positions += tuple(random.randrange(10**6) for _ in range(random.randint(1, 12)))
        fails_at = 2 if random.random() < 0.03 else None
        words = Words(name, positions, random.randint(0, 60), fails_at)
        limit = random.choice([None, 1, 7, 30, 200])
        allowed = random.choice([None, None, None, 0, 3])
        made = prompt(
            words,
            max_frames=limit,
            allowed=allowed,
            keyed=random.random() < 0.9,
            num_common=random.choice((0, min(num_alike, 7 + voice), min(num_alike, 17))),
        )
        request = EngineRequest(
            name,
            replace(made, is_decoded=random.random() < 0.8),
            is_live=random.random() < 0.8,
        )
        try:
            self.scheduler.add(request)
        except OverloadedError:
            return
        self.words[name], self.limits[name] = words, limit
        if self.device.codec is not None and request.prompt.is_decoded:
            self.decoded.add(name)
        if allowed is not None:
            self.open_text[name] = allowed
        if random.random() < 0.2:
            self.slow[name] = 0

    @property
    def open_names(self) -> list[str]:
        return [name for name in self.words if name not in self.ends]

    def write(self) -> None:
        """Send a little more text for one request."""
        if self.open_text:
            name = self.random.choice(list(self.open_text))
            is_last = self.random.random() < 0.5
            allowed = None if is_last else self.open_text[name] + self.random.randint(0, 5)
            piece = Piece(data=len(self.sent[name]), num_frames_allowed=allowed)
            self.scheduler.append(name, piece)
            if name not in self.ends:
                self.sent[name].append(piece.data)
            if allowed is None:
                del self.open_text[name]
            else:
                self.open_text[name] = allowed

    def leave(self) -> None:
        if names := self.open_names:
            name = self.random.choice(names)
            assert self.scheduler.abort(name)
            self.ends[name] = Ended("abort")
            self.open_text.pop(name, None)

    def read(self) -> None:
        for name, num_unread in self.slow.items():
            num_frames = min(num_unread, self.random.randint(0, 8))
            self.slow[name] -= num_frames
            read_frames(self.scheduler, name, num_frames)

    def step(self) -> None:
        self.now_s += self.random.choice([0.002, 0.01, 0.05])
        plan = self.scheduler.schedule()
        if not plan.is_empty:
            self.in_flight.append((plan, self.device.launch(plan)))
        while len(self.in_flight) > (0 if plan.is_empty else 1):
            done, pending = self.in_flight.popleft()
            for name, event in self.scheduler.update(done, pending.result()):
                self.take(name, event)
        self.scheduler.check_integrity()

    def take(self, name: str, event: EngineEvent) -> None:
        assert name not in self.ends, "an event after its end"
        if isinstance(event, Ended):
            self.ends[name] = event
            self.open_text.pop(name, None)
            return
        assert isinstance(event, AudioChunk if name in self.decoded else FrameReady)
        self.heard[name].append(event)
        num_frames = event.num_frames if isinstance(event, AudioChunk) else 1
        if name in self.slow:
            self.slow[name] += num_frames
            assert self.slow[name] <= LIMITS.max_unread_frames
        else:
            read_frames(self.scheduler, name, num_frames)

    def check_all(self) -> None:
        """Assert that every request got the events it had to get."""
        assert set(self.ends) == set(self.words)
        for name, words in self.words.items():
            events, end, limit = self.heard[name], self.ends[name].reason, self.limits[name]
            if name in self.decoded:
                frames = heard_values(events)
            else:
                frames = [each.frame for each in events if isinstance(each, FrameReady)]
            assert frames == [frame_value(name, number) for number in range(len(frames))]
            if end in ("stop", "length"):
                is_cut = limit is not None and limit <= words.num_frames
                assert end == ("length" if is_cut else "stop")
                assert len(frames) == (limit if is_cut else words.num_frames)
                if frames:
                    assert (
                        self.device.pieces[name] == self.sent[name][: len(self.device.pieces[name])]
                    )
            elif end == "error":
                assert len(frames) <= 2


FROM_UPSTREAM = replace(CODEC, has_upstream=True)
IN_BATCHES = replace(CODEC, look_ahead_frames=3, batch_chunks=4)


@pytest.mark.parametrize(
    "codec",
    [None, CODEC, FROM_UPSTREAM, IN_BATCHES],
    ids=["frames", "audio", "frames from upstream", "audio in batches"],
)
@pytest.mark.parametrize(
    ("num_blocks", "replayed"),
    [
        (None, None),
        pytest.param(30, None, marks=pytest.mark.slow),  # between its neighbours
        (30, 3),
        pytest.param(200, 3, marks=pytest.mark.slow),
    ],
    ids=["no cache", "small", "small, replayed in parts", "large"],
)
def test_random_lives(
    num_blocks: int | None, replayed: int | None, codec: CodecShape | None
) -> None:
    copies = replayed is not None
    cache = None if num_blocks is None else CacheShape(num_blocks, 4, 110, replayed, copies)
    world = World(seed=(num_blocks or 0) + (codec is not None), cache=cache, codec=codec)
    while len(world.words) < 400:
        world.random.choices(
            [world.arrive, world.step, world.write, world.leave, world.read],
            weights=[2, 12, 4, 0.3, 4],
        )[0]()
    for _ in range(20_000):
        if not world.open_names:
            break
        world.write()
        world.read()
        world.step()
    world.step()
    world.step()
    assert not world.device.rows, "a slot was not released"
    assert not world.scheduler.has_work
    world.check_all()
    assert world.device.num_resumed > 0 or num_blocks == 200 or num_blocks is None
    assert bool(world.device.num_shared_positions) == (cache is not None)
    assert bool(world.device.num_copies) == copies
