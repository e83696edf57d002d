"""Scheduling of generators by the playback clock, and admission of their requests."""

import heapq
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import inf

from antiphon.contracts.engine_limits import AdmissionLimits, PlaybackPolicy
from antiphon.engine.generator_cost_model import GeneratorCostModel, GeneratorWork
from antiphon.engine.request import PlaybackClock

_COMFORT_S = PlaybackPolicy().comfort_s
_OFFLINE_PATIENCE_S = 5.0


@dataclass(slots=True, eq=False)
class GeneratorStream:
    """A stream that a client plays; several requests may make it, one after another.

    Attributes:
        has_begun: whether one of its requests has ever run.
        is_reserved: whether it was admitted, and has had no request yet.
    """

    speed: float
    requests: list["GeneratorRequest"] = field(default_factory=list)
    has_begun: bool = False
    is_reserved: bool = False
    clock: PlaybackClock = field(default_factory=PlaybackClock)


@dataclass(slots=True, eq=False)
class GeneratorRequest:
    """A prompt that a generator works on.

    Attributes:
        stream: the stream; ``None``: the request's priority is offline.
        wanted_s: time since which its next chunk is wanted; ``None``: it is not.
    """

    stream_id: str
    stream: GeneratorStream | None
    order: int
    work: GeneratorWork
    is_running: bool = False
    wanted_s: float | None = None


class GeneratorScheduler:
    """Schedules models that own their loop by the playback clock.

    A generator runs for one chunk at a time, when that chunk is wanted. A run is not interrupted.
    The order of wanted chunks is:

    1. Chunks of streams with less slack than a round takes, by deadline. A round is one chunk of
       each stream and the longest run of all.
    2. First chunks in order of arrival, as long as all streams that have begun play without gaps.
    3. All others by slack. An offline request counts as a stream that had 5 s of slack when its
       chunk was wanted, so it fills the time that streams leave. After that time only streams that
       would have a gap precede it, and after 5 s more none does.

    Offline requests leave one thread to streams while there are any, if there are several threads.

    A request is admitted if the machine can keep up with one more stream. Otherwise, and where many
    wait for their first chunk, it may wait if the predicted wait is short; or it is refused. A
    request that continues a stream was admitted with its beginning.
    """

    def __init__(
        self,
        num_threads: int,
        max_streams: int,
        limits: AdmissionLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without requests; ``max_streams`` applies whatever the throughput is."""
        self.costs = GeneratorCostModel(clock)
        self._num_threads = num_threads
        self._max_streams = max_streams
        self._limits = limits or AdmissionLimits()
        self._clock = clock
        self._num_arrived = 0
        self._num_offline_running = 0
        self._streams: dict[str, GeneratorStream] = {}
        self._offline: dict[int, GeneratorRequest] = {}
        self._offline_wanted: list[int] = []  # a heap of orders; aborted ones are still in it

    @property
    def num_open(self) -> int:
        return len(self._offline) + sum(len(stream.requests) for stream in self._streams.values())

    @property
    def num_waiting(self) -> int:
        """Streams that wait for their first run."""
        return sum(not stream.has_begun for stream in self._streams.values())

    def add(
        self,
        stream_id: str,
        num_tokens: int,
        *,
        is_live: bool = True,
        is_later: bool = False,
        speed: float = 1.0,
    ) -> GeneratorRequest:
        """Admit a request; raises OverloadedError."""
        if not is_live:
            self._check_offline()
        elif not is_later:
            self._check_live(speed)
        request = GeneratorRequest(stream_id, None, self._num_arrived, GeneratorWork(num_tokens))
        self._num_arrived += 1
        if not is_live:
            self._offline[request.order] = request
            return request
        stream = self._streams.setdefault(stream_id, GeneratorStream(speed))
        if stream.is_reserved:
            stream.is_reserved = False
        elif is_later and not stream.requests:  # the parts before may have been played by now
            stream.has_begun, stream.clock.deadline_s = True, self._clock()
        stream.requests.append(request)
        request.stream = stream
        return request

    def reserve(self, stream_id: str, *, speed: float = 1.0) -> None:
        """Admit a live stream, whose requests will be ``is_later``, or refuse it as `add` does."""
        self._check_live(speed)
        self._streams[stream_id] = GeneratorStream(speed, is_reserved=True)

    def release(self, stream_id: str) -> None:
        """Drop a stream that was admitted and has had no request."""
        if (stream := self._streams.get(stream_id)) is not None and stream.is_reserved:
            del self._streams[stream_id]

    def want(self, request: GeneratorRequest) -> None:
        """Record that a request's next chunk is wanted."""
        assert request.wanted_s is None, "it is wanted already"
        assert not request.is_running, "one chunk at a time"
        request.wanted_s = self._clock()
        if request.stream is None:
            heapq.heappush(self._offline_wanted, request.order)

    def schedule(self) -> GeneratorRequest | None:
        """Begin a run of a request, and return it; ``None``: no request can run."""
        now_s = self._clock()
        comfort_s = self._comfort_s()
        candidates = [
            request
            for stream in self._streams.values()
            if stream.has_begun
            for request in stream.requests
            if request.wanted_s is not None
        ]
        if (first := self._first_to_begin()) is not None:
            candidates.append(first)
        if (offline := self._next_offline()) is not None:
            candidates.append(offline)
        if not candidates:
            return None
        chosen = min(candidates, key=lambda request: self._rank(request, now_s, comfort_s))
        chosen.wanted_s, chosen.is_running = None, True
        if chosen.stream is not None:
            chosen.stream.has_begun = True
        else:
            heapq.heappop(self._offline_wanted)
            self._num_offline_running += 1
        self.costs.begin(chosen.work)
        return chosen

    def update(
        self, request: GeneratorRequest, audio_s: float, *, is_complete: bool = False
    ) -> None:
        """End a run that made ``audio_s`` of audio, also of an aborted request."""
        request.is_running = False
        self.costs.end(request.work, audio_s)
        if (stream := request.stream) is None:
            self._num_offline_running -= 1
        elif not is_complete:
            stream.clock.extend(self._clock(), audio_s / stream.speed)
        if is_complete:
            self.costs.complete(request.work)

    def remove(self, request: GeneratorRequest) -> None:
        """Remove a complete or aborted request; a run in flight must still be updated."""
        request.wanted_s = None
        if (stream := request.stream) is None:
            del self._offline[request.order]
            return
        stream.requests.remove(request)
        if not stream.requests:
            del self._streams[request.stream_id]

    def wait_s(self, speed: float = 1.0) -> float:
        """Return the predicted wait of a new stream for its first run; 0 if nothing is known."""
        if not self.costs.throughput:
            return 0.0
        start_s = self._start_s()
        if self._fits(self._streams.values(), speed):
            return start_s
        # All streams that have begun advance alike, and each that ends is replaced by the next.
        lefts_s: dict[bool, list[float]] = {True: [], False: []}
        for stream in self._streams.values():
            left_s = sum(self.costs.audio_left_s(request.work) for request in stream.requests)
            lefts_s[stream.has_begun].append(left_s)
        ends_s, num_begun = lefts_s[True] or [0.0], len(lefts_s[True])
        heapq.heapify(ends_s)
        for left_s in lefts_s[False]:
            heapq.heapreplace(ends_s, ends_s[0] + left_s)
        return max(start_s, ends_s[0] * num_begun / self.costs.throughput)

    def _check_live(self, speed: float) -> None:
        wait_s = self.wait_s(speed)
        has_capacity = self._fits(self._streams.values(), speed)
        if has_capacity and wait_s <= self._limits.max_wait_s:
            return
        num_streams = int(self.costs.throughput * self._limits.max_load)
        self._limits.check(self.num_waiting, wait_s, is_live=True, num_streams=num_streams)

    def _check_offline(self) -> None:
        num_ahead, wait_s = len(self._offline), 0.0
        if num_ahead >= self._limits.max_waiting_offline and self.costs.throughput:
            lefts_s = (self.costs.audio_left_s(request.work) for request in self._offline.values())
            wait_s = sum(lefts_s) / num_ahead / self.costs.throughput  # until one has ended
        self._limits.check(num_ahead, wait_s, is_live=False)

    def _first_to_begin(self) -> GeneratorRequest | None:
        """Return the request that has waited longest for its first run, if it may have it."""
        begun: list[GeneratorStream] = []
        waiting: GeneratorStream | None = None
        for stream in self._streams.values():
            if stream.has_begun:
                begun.append(stream)
            elif waiting is None and stream.requests and stream.requests[0].wanted_s is not None:
                waiting = stream
        if waiting is None or not self._fits(begun, waiting.speed):
            return None
        return waiting.requests[0]

    def _fits(self, streams: Collection[GeneratorStream], speed: float) -> bool:
        """Whether one more stream fits beside ``streams``; beside none it always does."""
        if not streams:
            return True
        if len(streams) >= self._max_streams:
            return False
        load = sum(stream.speed for stream in streams) + speed
        return not self.costs.throughput or load <= self._limits.max_load * self.costs.throughput

    def _start_s(self) -> float:
        """Return the time until all waiting streams have begun and a thread is free for one more.

        Each needs its first chunk, and audio up to a comfortable slack. That takes no longer than
        all audio that is left to be made: many short streams end before.
        """
        num_waiting = self.num_waiting
        num_ahead = max(num_waiting + 1 - self._num_threads, 0)
        load = sum(stream.speed for stream in self._streams.values()) - num_waiting / 2
        used = min(load / self.costs.throughput, self._limits.max_load)  # half of them, on average
        begin_s = self.costs.start_work_s + self._comfort_s() / self.costs.throughput
        left_s = sum(
            self.costs.audio_left_s(request.work)
            for stream in self._streams.values()
            for request in stream.requests
        )
        return min(num_ahead * begin_s / (1 - used), left_s / self.costs.throughput)

    def _comfort_s(self) -> float:
        """Return the slack with which a stream can wait for one round."""
        round_s = len(self._streams) * self.costs.mean_run_s / self._num_threads
        return _COMFORT_S + self.costs.long_run_s + round_s

    def _rank(
        self, request: GeneratorRequest, now_s: float, comfort_s: float
    ) -> tuple[int, float, int]:
        """Return the sort key of a request whose chunk is wanted; see the class."""
        assert request.wanted_s is not None
        stream = request.stream
        if stream is None:
            deadline_s = request.wanted_s + _OFFLINE_PATIENCE_S
            return *self._offline_rank(deadline_s, now_s), request.order
        if stream.clock.deadline_s == inf:
            return 1, 0.0, request.order
        deadline_s = stream.clock.deadline_s
        for earlier in stream.requests:
            if earlier is request:
                break
            deadline_s += self.costs.audio_left_s(earlier.work) / stream.speed
        return (0 if deadline_s < now_s + comfort_s else 2), deadline_s, request.order

    def _offline_rank(self, deadline_s: float, now_s: float) -> tuple[int, float]:
        """Return the sort key among streams; it causes no gap until it is very late."""
        if deadline_s > now_s:
            return 2, deadline_s
        is_very_late = deadline_s + _OFFLINE_PATIENCE_S < now_s
        return 0, (deadline_s if is_very_late else now_s + self.costs.long_run_s)

    def _next_offline(self) -> GeneratorRequest | None:
        """Return the next offline request, if they may have one thread more."""
        max_running = max(1, self._num_threads - bool(self._streams))
        if self._num_offline_running >= max_running:
            return None
        while self._offline_wanted:
            request = self._offline.get(self._offline_wanted[0])
            if request is not None:
                return request
            heapq.heappop(self._offline_wanted)  # it was aborted
        return None
