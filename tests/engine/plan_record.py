"""A digest of every step plan and event of simulated mixed traffic.

A refactoring of the scheduler leaves all digests as they are. ``python -m tests.engine.plan_record
600`` prints those of ten minutes of each scenario.
"""

import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from random import Random
from typing import Any

from antiphon.contracts.engine_limits import AdmissionLimits, PlaybackPolicy
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, FrameReady, Latents, Samples, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CacheShape, CodecChunk, CodecShape, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import Runner
from antiphon.engine.scheduler import EngineEvent, SchedulerLimits
from antiphon.errors import InvalidRequestError, OverloadedError
from tests.clock import Clock
from tests.engine.device_model import DeviceModel
from tests.engine.simulator import SimulatedDevice, SimulatedStep, next_step_s
from tests.engine.turns import has_work, read_frames

SLOW = DeviceModel(rows_s=((1, 20e-3), (64, 45e-3), (1024, 500e-3)), prefill_s=5e-3)
_MAX_REST_S = 600.0  # in which the last requests must end
LIMITS = SchedulerLimits(
    max_unread_frames=48,
    max_prefill_positions=512,
    admission=AdmissionLimits(max_waiting=32, max_wait_s=4.0),
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One engine and its traffic.

    Attributes:
        rate_hz: mean rate of arrivals.
        late_text: share of requests whose text arrives in pieces.
    """

    seed: int
    num_slots: int = 24
    rate_hz: float = 5.0
    late_text: float = 0.3
    cache: CacheShape | None = None
    codec: CodecShape | None = None
    policy: PlaybackPolicy = field(default_factory=PlaybackPolicy)


SMALL = CacheShape(400, 16, 1024, 16, copies_blocks=True)
SCENARIOS = {
    "frames": Scenario(1, cache=SMALL),
    "causal": Scenario(2, cache=SMALL, codec=CodecShape(2, 25, tuple(range(1, 17)))),
    "causal, few sizes": Scenario(
        3, 8, 2.5, cache=CacheShape(5000, 16, 1024), codec=CodecShape(2, 12, (1, 4, 16))
    ),
    "look-ahead": Scenario(24, codec=CodecShape(2, 25, (2, 4, 8, 16), 3, 2)),
    "look-ahead, batched": Scenario(
        24, codec=CodecShape(2, 25, (2, 4, 8, 16), 3, 2, batch_chunks=4)
    ),
    "upstream": Scenario(
        5, late_text=1.0, codec=CodecShape(2, 25, (1, 2, 4, 8), has_upstream=True)
    ),
    "upstream, look-ahead": Scenario(
        6, late_text=1.0, codec=CodecShape(2, 25, (1, 2, 4, 8), 2, has_upstream=True)
    ),
    "elastic": Scenario(
        7, 12, 3.0, cache=SMALL, codec=CodecShape(2, 25, (1, 2, 4, 8), late_frames=3)
    ),
    "elastic, grouped": Scenario(28, 12, 3.0, codec=CodecShape(2, 25, (4, 8), 0, 4, late_frames=6)),
}


class RecordingDevice(SimulatedDevice):
    def __init__(self, scenario: Scenario, clock: Clock) -> None:
        super().__init__(clock, scenario.num_slots, model=SLOW, cache=scenario.cache)
        self.codec = scenario.codec
        self.digest = sha256()
        self._prompts: dict[int, Prompt] = {}

    def launch(self, plan: StepPlan) -> SimulatedStep:
        self.digest.update(_canonical(plan))
        self._prompts |= {start.slot: start.prompt for start in plan.starts}
        step, frames = super().launch(plan), {}
        lengths = set()
        for slot in step.output.frames:
            fate = self._prompts[slot].seed % 20 if self._left[slot] == 2 else 0
            if fate != 1:  # 1: a fault
                frames[slot] = self._num_before[slot]
                lengths |= {slot} if fate == 2 else set()
        output = replace(step.output, frames=frames, lengths=frozenset(lengths))
        return replace(step, ends_s=round(step.ends_s, 6), output=output)

    def audio_of(self, chunk: CodecChunk) -> Samples:
        if self.codec is None or not self.codec.is_elastic:
            return super().audio_of(chunk)
        delay = self.codec.late_frames
        numbers = range(chunk.start - delay, chunk.start - delay + chunk.num_frames)
        end = inf if chunk.end is None else chunk.end
        num_sounding = sum(0 <= number < end and number % 3 != 1 for number in numbers)
        return self._silence[: 2 * num_sounding]


class Recording:
    """One run of a scenario, in virtual time."""

    def __init__(self, scenario: Scenario, duration_s: float) -> None:
        self.num_events: dict[str, int] = {}
        self._scenario, self._duration_s = scenario, duration_s
        self._random, self._clock = Random(scenario.seed), Clock()
        self._device = RecordingDevice(scenario, self._clock)
        runner: Runner = self._device
        self._core = EngineCore(runner, limits=LIMITS, policy=scenario.policy, clock=self._clock)
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._num_actions = self._num_arrived = 0
        self._slow: set[str] = set()
        self._open: set[str] = set()

    def run(self) -> str:
        """Run until every request has ended; return the digest of all plans and events."""
        self._later(0.0, self._arrive)
        while self._actions or has_work(self._core):
            step_s = next_step_s(self._core, self._clock)
            due_s = inf if step_s is None else step_s
            assert self._clock.now_s < self._duration_s + _MAX_REST_S, "a request is stuck"
            assert self._actions or due_s < inf, "a request is stuck"
            if self._actions and self._actions[0][0] <= due_s:
                at_s, _, action = heapq.heappop(self._actions)
                self._clock.now_s = max(self._clock.now_s, at_s)
                action()
                self._core.wake()
                continue
            self._clock.now_s = due_s
            for name, event in self._core.step():
                self._take(name, event)
        scheduler = self._core.scheduler
        scheduler.check_integrity()
        assert not self._open, "a request has not ended"
        self.num_events["preempted"] = scheduler.stats.preemptions
        return self._device.digest.hexdigest()

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._num_actions += 1
        heapq.heappush(self._actions, (self._clock.now_s + delay_s, self._num_actions, action))

    def _note(self, kind: str, *what: Any) -> None:
        self.num_events[kind] = self.num_events.get(kind, 0) + 1
        self._device.digest.update(repr((kind, *what)).encode())

    def _arrive(self) -> None:
        random = self._random
        if self._clock.now_s < self._duration_s:
            burst = 4 if self._clock.now_s % 60 < 5 else 1  # now and then more than can be served
            self._later(random.uniform(0, 2 / self._scenario.rate_hz / burst), self._arrive)
        self._num_arrived += 1
        name = f"r{self._num_arrived}"
        request = EngineRequest(name, self._prompt(), is_live=random.random() < 0.75)
        request.returns_frames = random.random() < 0.3
        if random.random() < 0.1:
            num_made = random.randint(1, max(1, request.prompt.data - 1))
            request.resume(list(range(num_made)), random.choice((None, 0.1, 2.0)))
        try:
            self._core.scheduler.add(request)
        except OverloadedError as error:
            self._note("refused", name, error.retry_after_s)
            return
        except InvalidRequestError:
            self._note("too long", name)
            return
        if request.is_last_frame_planned:  # it was resumed with all of its frames
            self._core.scheduler.abort(name)
            return
        self._open.add(name)
        if random.random() < 0.1:
            self._slow.add(name)
        if random.random() < 0.08:
            self._later(random.uniform(0, 4), lambda: self._leave(name))
        if request.prompt.num_frames_allowed is not None:
            self._write(name, request.num_frames, request.prompt.data)

    def _prompt(self) -> Prompt:
        random = self._random
        voice, num_alike = random.randrange(3), random.randint(0, 60)
        keys = [voice * 1000 + number for number in range(num_alike)]
        keys += [random.randrange(10**6, 10**9) for _ in range(random.randint(1, 60))]
        num_frames = random.randint(1, 160)
        return Prompt(
            data=num_frames,
            num_tokens=max(1, num_frames // 4),
            seed=self._num_arrived,
            sampling=Sampling(max_frames=random.choice((None, 120, 40))),
            num_frames_allowed=0 if random.random() < self._scenario.late_text else None,
            first_chunk_frames=random.choice((None, None, 1, 6)),
            num_positions=len(keys),
            position_keys=keys if random.random() < 0.9 else (),
            num_common_positions=random.choice((0, num_alike)),
            is_decoded=random.random() < 0.9,
        )

    def _write(self, name: str, num_sent: int, num_frames: int) -> None:
        """Send text, or a frame of the stage before, and go on until it is complete."""
        has_upstream = self._scenario.codec is not None and self._scenario.codec.has_upstream
        num_sent += 1 if has_upstream else self._random.randint(2, 20)
        is_last = num_sent > num_frames
        piece = Piece(data=num_sent, num_frames_allowed=None if is_last else num_sent)
        self._core.scheduler.append(name, piece)
        if not is_last and name in self._open:
            delay_s = self._random.uniform(0.005, 0.05 if has_upstream else 0.6)
            self._later(delay_s, lambda: self._write(name, num_sent, num_frames))

    def _leave(self, name: str) -> None:
        if self._core.scheduler.abort(name):
            self._open.remove(name)
            self._note("aborted", name)

    def _take(self, name: str, event: EngineEvent) -> None:
        if isinstance(event, Ended):
            self._open.remove(name)
            self._note(event.reason, name, self._clock.now_s)
        elif isinstance(event, AudioChunk):
            self._note("audio", name, len(event.samples), event.num_frames, event.frames)
            self._read(name, event.num_frames)
        elif isinstance(event, FrameReady):
            self._note("frame", name, event.frame)
            self._read(name, 1)
        else:
            assert not isinstance(event, Latents), "no states are exported"

    def _read(self, name: str, num_frames: int) -> None:
        def read() -> None:
            read_frames(self._core.scheduler, name, num_frames)

        if name in self._slow:
            self._later(self._random.uniform(0.1, 3), read)
        else:
            read()


def _canonical(plan: StepPlan) -> bytes:
    """Return bytes that two plans share if, and only if, a device does the same for both."""
    parts = (
        plan.releases,
        [
            (each.slot, each.prompt.seed, each.frames, each.num_frames_decoded)
            for each in plan.starts
        ],
        [(each.slot, each.piece.data, each.piece.num_frames_allowed) for each in plan.appends],
        list(plan.blocks.items()),
        [(each.source, each.target) for each in plan.copies],
        [(each.slot, each.start, each.end) for each in plan.prefills],
        plan.decode_slots,
        [(each.slot, each.start, each.end) for each in plan.codec_replays],
        [(each.slot, each.start, each.num_frames, each.end) for each in plan.codec_chunks],
    )
    return repr(parts).encode()


def main(duration_s: float) -> None:
    for name, scenario in SCENARIOS.items():
        recording = Recording(scenario, duration_s)
        sys.stdout.write(f"{name}: {recording.run()}\n")
        sys.stderr.write(f"{recording.num_events}\n")


if __name__ == "__main__":
    main(float(sys.argv[1]))
