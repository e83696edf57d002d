"""Many engines in virtual time: replicas, a codec apart, front ends, and the way between them.

Each engine is the real scheduler over a device of formulas, with a clock of its own. An event is
given to an engine when all others have come as far, up to a step of theirs.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from statistics import fmean

import numpy as np

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, FrameReady, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.cost_model import StepShape
from antiphon.engine.plan import CacheShape, CodecShape, StepOutput, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import SchedulerLimits
from antiphon.errors import OverloadedError
from tests.clock import Clock
from tests.engine.device_model import ROW_BUCKETS, DeviceModel
from tests.engine.simulator import Listener, SimulatedDevice, SimulatedStep, Traffic, next_step_s
from tests.engine.turns import read_frames


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """What a cluster is made of.

    Attributes:
        num_talkers: replicas of the autoregressive stage; with no codec apart, whole engines.
        num_codecs: replicas of a codec apart; 0: each talker decodes what it makes.
        num_front_ends: processes that take requests and give chunks out.
        slots: of each talker.
        codec_slots: of each codec apart.
        device: how fast each GPU is.
        hop_s: a message's way between two processes.
        request_s: time of a front end's core for a request.
        chunk_s: time of a front end's core for a chunk of audio.
        cache: blocks of each talker.
        limits: of admission and of a step's work.
    """

    num_talkers: int = 1
    num_codecs: int = 0
    num_front_ends: int = 1
    slots: int = 256
    codec_slots: int = 1024
    device: DeviceModel = field(default_factory=DeviceModel)
    hop_s: float = 0.3e-3
    request_s: float = 0.0
    chunk_s: float = 0.0
    cache: CacheShape | None = None
    limits: SchedulerLimits | None = None


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """The result of a simulation.

    Attributes:
        num_ended: requests that were answered.
        num_rejected: requests that were refused.
        first_audio_s: of all: percentiles 50, 95 and 99.
        gapless: share of the streams without a gap at the listener.
        audio_s: of all streams together.
        front_end_load: share of time that front ends are busy, with the work of all requests
            spread over the time in which they arrive.
        num_chunks: of audio, per stream.
    """

    num_ended: int
    num_rejected: int
    first_audio_s: tuple[float, float, float]
    gapless: float
    audio_s: float
    front_end_load: float
    num_chunks: float


class SimulatedCodec:
    """A `Runner` that decodes frames which another stage sends; only its time is simulated."""

    row_buckets = ROW_BUCKETS
    cache = None

    def __init__(self, clock: Clock, num_slots: int, model: DeviceModel) -> None:
        self.num_slots = num_slots
        self.codec = CodecShape(2, 25, model.chunk_sizes, has_upstream=True)
        self._clock = clock
        self._model = model
        self._free_s = 0.0
        self._arrived: dict[int, int] = {}
        self._silence = np.zeros(2 * model.chunk_sizes[-1], np.float32)

    def launch(self, plan: StepPlan) -> SimulatedStep:
        self._clock.now_s += self._model.host_s
        for slot in plan.releases:
            del self._arrived[slot]
        for start in plan.starts:
            self._arrived[start.slot] = -len(start.frames)
        for append in plan.appends:
            self._arrived[append.slot] += append.piece.data is not None
        frames, stopped = {}, set()
        for slot in plan.decode_slots:
            if self._arrived[slot] > 0:
                self._arrived[slot] -= 1
                frames[slot] = 0
            else:
                stopped.add(slot)
        seconds = self._model.step_s(StepShape(0, 0, StepShape.of(plan).num_codec_frames))
        self._free_s = max(self._free_s, self._clock.now_s) + seconds
        chunks = {each.slot: self._silence[: 2 * each.num_frames] for each in plan.codec_chunks}
        output = StepOutput(frames, frozenset(stopped), chunks=chunks)
        return SimulatedStep(self._clock, self._free_s, output)

    def close(self) -> None:
        """Nothing to free."""


class _Node:
    """An engine with its clock, and the messages on their way to it."""

    def __init__(self, core: EngineCore, clock: Clock) -> None:
        self.core = core
        self.clock = clock
        self.num_open = 0
        self._order = count()
        self._messages: list[tuple[float, int, Callable[[], None]]] = []

    def send(self, at_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._messages, (at_s, next(self._order), action))

    def due_s(self) -> float:
        return min(self._step_s(), self._message_s())

    def turn(self) -> list[tuple[str, object]]:
        """Take a message in, or make a step."""
        message_s, step_s = self._message_s(), self._step_s()
        if message_s <= step_s:
            self.clock.now_s = message_s
            heapq.heappop(self._messages)[2]()
            self.core.wake()
            return []
        self.clock.now_s = step_s
        return [*self.core.step()]

    def _message_s(self) -> float:
        return max(self._messages[0][0], self.clock.now_s) if self._messages else float("inf")

    def _step_s(self) -> float:
        step_s = next_step_s(self.core, self.clock)
        return float("inf") if step_s is None else step_s


@dataclass(slots=True)
class _FrontEnd:
    """A process that does one thing at a time."""

    free_s: float = 0.0
    busy_s: float = 0.0

    def work(self, at_s: float, cost_s: float) -> float:
        self.free_s = max(self.free_s, at_s) + cost_s
        self.busy_s += cost_s
        return self.free_s


@dataclass(slots=True)
class _Stream:
    listener: Listener
    front_end: _FrontEnd
    talker: _Node
    codec: _Node | None
    prompt: Prompt
    num_chunks: int = 0


class ClusterSimulation:
    def __init__(self, model: ClusterModel, traffic: Traffic) -> None:
        self.model = model
        self.traffic = traffic
        self.ended: list[_Stream] = []
        self.num_rejected = 0
        self._random = Random(traffic.seed)  # of traffic, which is the same for every cluster
        self._choices = Random(traffic.seed)
        self._open: dict[str, _Stream] = {}
        self._numbers = count()
        self.talkers = [self._talker() for _ in range(model.num_talkers)]
        self.codecs = [self._codec() for _ in range(model.num_codecs)]
        self.front_ends = [_FrontEnd() for _ in range(model.num_front_ends)]
        self._next_arrival_s = 0.0

    def run(self) -> None:
        nodes = (*self.talkers, *self.codecs)
        while True:
            node = min(nodes, key=_Node.due_s)
            due_s = node.due_s()
            if self._next_arrival_s <= min(due_s, self.traffic.duration_s):
                self._arrive(self._next_arrival_s)
                self._next_arrival_s += self._random.expovariate(self.traffic.rate_hz)
            elif due_s == float("inf"):
                return
            else:
                for name, event in node.turn():
                    self._handle(node, name, event)

    def _talker(self) -> _Node:
        clock, model = Clock(), self.model
        is_whole = model.num_codecs == 0
        device = SimulatedDevice(
            clock, model.slots, model=model.device, cache=model.cache, has_codec=is_whole
        )
        return _Node(EngineCore(device, limits=model.limits, clock=clock), clock)

    def _codec(self) -> _Node:
        clock, model = Clock(), self.model
        device = SimulatedCodec(clock, model.codec_slots, model.device)
        return _Node(EngineCore(device, limits=model.limits, clock=clock), clock)

    def _arrive(self, at_s: float) -> None:
        traffic, random = self.traffic, self._random
        length = traffic.median_frames * random.lognormvariate(0.0, 0.5)
        num_frames = min(max(1, round(length)), traffic.max_frames)
        prompt = Prompt(
            data=num_frames,
            num_tokens=max(1, round(length / 4)),
            seed=0,
            sampling=Sampling(max_frames=traffic.max_frames),
            num_positions=random.randint(*traffic.num_positions),
        )
        stream = _Stream(
            Listener(at_s, True),
            self._choices.choice(self.front_ends),
            self._choose(self.talkers),
            self._choose(self.codecs) if self.codecs else None,
            prompt,
        )
        sent_s = stream.front_end.work(at_s, self.model.request_s) + self.model.hop_s
        for node in (stream.talker, *([stream.codec] if stream.codec else [])):
            node.num_open += 1
        name = str(next(self._numbers))
        self._open[name] = stream
        stream.talker.send(sent_s, lambda: self._start(name, stream))

    def _choose(self, nodes: list[_Node]) -> _Node:
        """Power of two choices."""
        two = self._choices.sample(nodes, min(2, len(nodes)))
        return min(two, key=lambda node: node.num_open)

    def _start(self, name: str, stream: _Stream) -> None:
        try:
            stream.talker.core.scheduler.add(EngineRequest(name, stream.prompt, True))
        except OverloadedError:
            self.num_rejected += 1
            self._leave(self._open.pop(name))
            return
        if stream.codec is not None:
            codec = stream.codec
            prompt = Prompt(data=None, num_tokens=1, seed=0, num_frames_allowed=0)
            request = EngineRequest(name, prompt, True)
            at_s = stream.talker.clock.now_s + self.model.hop_s
            codec.send(at_s, lambda: self._admit(request, stream, codec))

    def _admit(self, request: EngineRequest, stream: _Stream, codec: _Node) -> None:
        """Take a stream in at its codec, or end it at its talker too."""
        try:
            codec.core.scheduler.add(request)
        except OverloadedError:
            self.num_rejected += 1
            stream.talker.core.scheduler.abort(request.id)
            self._leave(self._open.pop(request.id))

    def _handle(self, node: _Node, name: str, event: object) -> None:
        stream, now_s = self._open.get(name), node.clock.now_s
        if stream is None:  # refused by the codec
            return
        if isinstance(event, AudioChunk):
            done_s = stream.front_end.work(now_s + self.model.hop_s, self.model.chunk_s)
            stream.listener.on_audio(event, done_s)
            stream.num_chunks += 1
            read_frames(node.core.scheduler, name, event.num_frames)
        elif node is stream.talker and stream.codec is not None:
            read_frames(node.core.scheduler, name)
            self._forward(name, stream, stream.codec, event, now_s)
        elif isinstance(event, Ended):
            self.ended.append(self._open.pop(name))
            self._leave(stream)

    def _forward(
        self, name: str, stream: _Stream, codec: _Node, event: object, now_s: float
    ) -> None:
        """Send a frame, or the end, to the codec."""
        data: int | None = None
        allowed: int | None = None
        if isinstance(event, FrameReady):
            stream.listener.num_frames += 1
            data, allowed = 0, stream.listener.num_frames
        piece = Piece(data=data, num_frames_allowed=allowed)
        codec.send(now_s + self.model.hop_s, lambda: codec.core.scheduler.append(name, piece))

    @staticmethod
    def _leave(stream: _Stream) -> None:
        stream.talker.num_open -= 1
        if stream.codec is not None:
            stream.codec.num_open -= 1


def simulate_cluster(model: ClusterModel, traffic: Traffic) -> ClusterReport:
    """Run random arrivals (``traffic.rate_hz``) over a cluster, all of them listened to."""
    simulation = ClusterSimulation(model, traffic)
    simulation.run()
    for node in (*simulation.talkers, *simulation.codecs):
        node.core.scheduler.check_integrity()
    heard = [each.listener for each in simulation.ended if each.listener.first_audio_s is not None]
    first_s = sorted(each.first_audio_s or 0.0 for each in heard) or [0.0]
    p50, p95, p99 = (
        first_s[min(len(first_s) - 1, len(first_s) * part // 100)] for part in (50, 95, 99)
    )
    busy_s = fmean(each.busy_s for each in simulation.front_ends)
    return ClusterReport(
        num_ended=len(simulation.ended),
        num_rejected=simulation.num_rejected,
        first_audio_s=(p50, p95, p99),
        gapless=fmean(each.longest_gap_s <= 1e-9 for each in heard) if heard else 1.0,
        audio_s=sum(each.audio_s for each in heard),
        front_end_load=busy_s / traffic.duration_s,
        num_chunks=fmean(each.num_chunks for each in simulation.ended) if heard else 0.0,
    )
