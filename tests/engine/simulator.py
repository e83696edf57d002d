"""Hours of traffic in virtual time: the engine's own scheduler over a device of formulas."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from statistics import fmean

import numpy as np

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Ended, Samples, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.cost_model import StepShape
from antiphon.engine.plan import CacheShape, CodecChunk, CodecShape, StepOutput, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import SchedulerLimits
from antiphon.errors import OverloadedError
from tests.clock import Clock
from tests.engine.device_model import ROW_BUCKETS, DeviceModel, HostModel
from tests.engine.turns import has_work, read_frames

_MAX_REST_S = 600.0  # in which the last requests must end


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests of a simulation.

    Attributes:
        duration_s: in which requests arrive.
        rate_hz: of random arrivals (an open loop); or
        num_clients: that each send a request when their last one has ended (a closed loop).
        ramp_s: in which the clients begin, evenly; ``None``: one each millisecond.
        num_requests: of all clients, in any time; 0: only ``duration_s`` ends the traffic.
        median_frames: of a request; they vary by half of it, up and down.
        max_frames: of the longest request.
        spread: how far lengths vary about their median; 0: not at all.
        num_frames: least and most, of lengths that are equally frequent instead.
        num_positions: least and most, of prompts.
        offline_share: of requests without a listener.
        warm_up_s: listeners who arrive earlier are not counted in ``first_audio_s``.
        seed: of all random numbers.
    """

    duration_s: float
    rate_hz: float = 0.0
    num_clients: int = 0
    ramp_s: float | None = None
    num_requests: int = 0
    median_frames: int = 75
    max_frames: int = 600
    spread: float = 0.5
    num_frames: tuple[int, int] | None = None
    num_positions: tuple[int, int] = (20, 100)
    offline_share: float = 0.0
    warm_up_s: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a simulation.

    Attributes:
        num_ended: requests that were answered.
        num_rejected: requests that were refused.
        first_audio_s: of live requests: percentiles 50, 95 and 99.
        gapless: share of the live streams without a gap.
        longest_gap_s: in the middle of a live stream.
        audio_s_per_s: of all requests, their first and last seconds included.
        busy_audio_s_per_s: while all clients are busy: from the last one's first audio to the last
            request; of the whole time if clients do not come again.
        mean_rows: of steps that made frames.
        mean_step_s: of all steps.
        recomputed: positions that were prefilled again, for each frame that was made.
    """

    num_ended: int
    num_rejected: int
    first_audio_s: tuple[float, float, float]
    gapless: float
    longest_gap_s: float
    audio_s_per_s: float
    busy_audio_s_per_s: float
    mean_rows: float
    mean_step_s: float
    recomputed: float


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A step in virtual time: asking for its result moves the clock to its end."""

    clock: Clock
    ends_s: float
    output: StepOutput

    @property
    def is_done(self) -> bool:
        return self.clock.now_s >= self.ends_s

    def wait(self) -> None:
        self.clock.now_s = max(self.clock.now_s, self.ends_s)

    def result(self) -> StepOutput:
        self.wait()
        return self.output


def next_step_s(core: EngineCore, clock: Clock) -> float | None:
    """Return when an engine takes its next step if nothing happens: as expected, or as one ends."""
    wait_s, awaited = core.wait_s(), core.awaited
    due_s = inf if wait_s is None else clock.now_s + wait_s
    if isinstance(awaited, SimulatedStep):
        due_s = min(due_s, max(awaited.ends_s, clock.now_s))
    return None if due_s == inf else due_s


class SimulatedDevice:
    """A `Runner` whose steps take as long as a `DeviceModel` says; a prompt gives its frames."""

    row_buckets = ROW_BUCKETS

    def __init__(
        self,
        clock: Clock,
        num_slots: int,
        *,
        model: DeviceModel | None = None,
        cache: CacheShape | None = None,
        has_codec: bool = True,
    ) -> None:
        self.num_slots = num_slots
        self.cache = cache
        self.num_rows: list[int] = []
        self.busy_s: list[float] = []
        self._clock = clock
        self._model = model or DeviceModel()
        self.codec = CodecShape(2, 25, self._model.chunk_sizes) if has_codec else None
        self._free_s = 0.0
        self._left: dict[int, int] = {}
        self._num_before: dict[int, int] = {}
        self._silence = np.zeros(2 * self._model.chunk_sizes[-1], np.float32)

    def launch(self, plan: StepPlan) -> SimulatedStep:
        self._clock.now_s += self._model.host_s
        for slot in plan.releases:
            del self._left[slot]
        for start in plan.starts:
            self._left[start.slot] = start.prompt.data - len(start.frames)
            self._num_before[start.slot] = start.prompt.num_positions + len(start.frames)
        stopped = set()
        for slot in plan.decode_slots:
            self._left[slot] -= 1
            self._num_before[slot] += 1
            if self._left[slot] < 0:
                stopped.add(slot)
        num_attended = sum(self._num_before[slot] for slot in plan.decode_slots)
        seconds = self._model.step_s(StepShape.of(plan), num_attended)
        self._free_s = max(self._free_s, self._clock.now_s) + seconds
        self.busy_s.append(seconds)
        if plan.decode_slots:
            self.num_rows.append(len(plan.decode_slots))
        frames = {slot: 0 for slot in plan.decode_slots if slot not in stopped}
        chunks = {each.slot: self.audio_of(each) for each in plan.codec_chunks}
        output = StepOutput(frames, frozenset(stopped), chunks=chunks)
        return SimulatedStep(self._clock, self._free_s, output)

    def audio_of(self, chunk: CodecChunk) -> Samples:
        return self._silence[: 2 * chunk.num_frames]

    def close(self) -> None:
        """Nothing to free."""


@dataclass(slots=True)
class Listener:
    """A listener who plays a stream as it arrives."""

    arrived_s: float
    is_live: bool
    first_audio_s: float | None = None
    silent_at_s: float = 0.0
    longest_gap_s: float = 0.0
    audio_s: float = 0.0
    num_frames: int = 0
    arrivals: list[tuple[float, float]] = field(default_factory=list)
    """When pieces of audio came, and how long they are, in seconds."""

    def on_audio(self, chunk: AudioChunk, now_s: float) -> None:
        if not len(chunk.samples):
            return
        if self.first_audio_s is None:
            self.first_audio_s = now_s - self.arrived_s
            self.silent_at_s = now_s
        self.longest_gap_s = max(self.longest_gap_s, now_s - self.silent_at_s)
        self.silent_at_s = max(self.silent_at_s, now_s) + chunk.duration_s
        self.audio_s += chunk.duration_s
        self.arrivals.append((now_s, chunk.duration_s))


@dataclass(slots=True)
class Simulation:
    core: EngineCore
    clock: Clock
    traffic: Traffic
    check: Callable[[EngineCore], None] | None = None
    host: HostModel = field(default_factory=HostModel)
    num_rejected: int = 0
    num_prompt_positions: int = 0
    ended: list[Listener] = field(default_factory=list)
    _random: Random = field(init=False)
    _arrivals: list[float] = field(init=False, default_factory=list)
    _open: dict[str, Listener] = field(init=False, default_factory=dict)
    _num_arrived: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._random = Random(self.traffic.seed)
        num_clients, ramp_s = self.traffic.num_clients, self.traffic.ramp_s
        apart_s = 0.001 if ramp_s is None else ramp_s / max(1, num_clients)
        self._arrivals = [apart_s * number for number in range(num_clients)]
        if self.traffic.rate_hz:
            self._arrivals.append(0.0)

    def run(self) -> None:
        while self._arrivals or has_work(self.core):
            step_s = next_step_s(self.core, self.clock)
            due_s = inf if step_s is None else step_s
            if self._arrivals and self._arrivals[0] <= due_s:
                arrived_s = heapq.heappop(self._arrivals)
                self.clock.now_s = max(self.clock.now_s, arrived_s)
                self._arrive(arrived_s)
                continue
            self.clock.now_s = due_s
            assert due_s < self.traffic.duration_s + _MAX_REST_S, "a request is stuck"
            for name, event in self.core.step():
                self._handle(name, event)
            if self.check:
                self.check(self.core)

    def _arrive(self, arrived_s: float) -> None:
        traffic, random = self.traffic, self._random
        if traffic.rate_hz:
            self._arrive_at(arrived_s + random.expovariate(traffic.rate_hz))
        length = (
            random.uniform(*traffic.num_frames)
            if traffic.num_frames
            else traffic.median_frames * random.lognormvariate(0.0, traffic.spread)
        )
        prompt = Prompt(
            data=min(max(1, round(length)), traffic.max_frames),
            num_tokens=max(1, round(length / 4)),
            seed=0,
            sampling=Sampling(max_frames=traffic.max_frames),
            num_positions=random.randint(*traffic.num_positions),
        )
        self._num_arrived += 1
        self.clock.now_s += self.host.request_s
        self.num_prompt_positions += prompt.num_positions
        name = str(self._num_arrived)
        is_live = random.random() >= traffic.offline_share
        try:
            self.core.scheduler.add(EngineRequest(name, prompt, is_live))
        except OverloadedError as error:
            self.num_rejected += 1
            if not traffic.rate_hz:
                self._arrive_at(arrived_s + (error.retry_after_s or 1.0))
            return
        self.core.wake()
        self._open[name] = Listener(arrived_s, is_live)

    def _handle(self, name: str, event: object) -> None:
        if isinstance(event, AudioChunk):
            self.clock.now_s += self.host.chunk_s
            self._open[name].on_audio(event, self.clock.now_s + self.host.latency_s)
            read_frames(self.core.scheduler, name, event.num_frames)
        elif isinstance(event, Ended):
            self.ended.append(self._open.pop(name))
            if not self.traffic.rate_hz:
                self._arrive_at(self.clock.now_s)

    def _arrive_at(self, at_s: float) -> None:
        num_begun = self._num_arrived + len(self._arrivals)
        if self.traffic.num_requests and num_begun >= self.traffic.num_requests:
            return
        if at_s < self.traffic.duration_s:
            heapq.heappush(self._arrivals, at_s)


def simulate(
    traffic: Traffic,
    num_slots: int,
    *,
    model: DeviceModel | None = None,
    cache: CacheShape | None = None,
    policy: PlaybackPolicy | None = None,
    limits: SchedulerLimits | None = None,
    host: HostModel | None = None,
) -> Report:
    """Run traffic over an engine; ``host=None``: its process takes no time."""
    clock = Clock()
    device = SimulatedDevice(clock, num_slots, model=model, cache=cache)
    core = EngineCore(device, policy=policy, limits=limits, clock=clock)
    simulation = Simulation(core, clock, traffic, host=host or HostModel())
    simulation.run()
    core.scheduler.check_integrity()
    heard = [each for each in simulation.ended if each.is_live and each.first_audio_s is not None]
    stats = core.scheduler.stats
    first_s = sorted(
        each.first_audio_s or 0.0 for each in heard if each.arrived_s >= traffic.warm_up_s
    ) or [0.0]
    p50, p95, p99 = (
        first_s[min(len(first_s) - 1, len(first_s) * part // 100)] for part in (50, 95, 99)
    )
    return Report(
        num_ended=len(simulation.ended),
        num_rejected=simulation.num_rejected,
        first_audio_s=(p50, p95, p99),
        gapless=fmean(each.longest_gap_s <= 1e-9 for each in heard) if heard else 1.0,
        longest_gap_s=max((each.longest_gap_s for each in heard), default=0.0),
        audio_s_per_s=sum(each.audio_s for each in simulation.ended) / clock.now_s,
        busy_audio_s_per_s=_busy_audio_s_per_s(simulation.ended, traffic, clock.now_s),
        mean_rows=fmean(device.num_rows),
        mean_step_s=fmean(device.busy_s),
        recomputed=max(stats.prefill_positions - simulation.num_prompt_positions, 0) / stats.frames,
    )


def _busy_audio_s_per_s(ended: Sequence[Listener], traffic: Traffic, now_s: float) -> float:
    if not (traffic.num_requests and traffic.num_clients):
        return sum(each.audio_s for each in ended) / now_s
    begun_s = sorted(each.arrivals[0][0] for each in ended if each.arrivals)
    from_s = begun_s[traffic.num_clients - 1]
    to_s = max(each.arrived_s for each in ended)
    arrivals = [pair for each in ended for pair in each.arrivals]
    heard_s = sum(duration_s for at_s, duration_s in arrivals if from_s < at_s <= to_s)
    return heard_s / (to_s - from_s)
