"""Traffic for a `GeneratorScheduler` in virtual time: threads take as long as a cost says."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.engine.generator_scheduler import GeneratorRequest, GeneratorScheduler
from antiphon.errors import OverloadedError
from antiphon_bench.playback import underrun_s

CHUNKS_S = (0.2, 0.4, 0.8)
LONGEST_CHUNK_S = 1.0


@dataclass(frozen=True)
class Cost:
    """What a generator takes for a second of audio: at the start of a sentence, and for chunks."""

    sentence_s: float = 0.05
    chunk_s: float = 0.03


@dataclass
class Heard:
    """One stream as its client received it, with the times of its chunks."""

    came_s: float
    arrivals_s: list[float] = field(default_factory=list)
    durations_s: list[float] = field(default_factory=list)
    is_over: bool = False

    @property
    def halts_s(self) -> float:
        return underrun_s(self.arrivals_s, self.durations_s)

    @property
    def first_s(self) -> float:
        return self.arrivals_s[0] - self.came_s


class Traffic:
    """Drives a scheduler with threads, generators and listeners that read at once."""

    def __init__(
        self,
        num_threads: int = 2,
        max_streams: int = 64,
        limits: AdmissionLimits | None = None,
        cost: Cost | None = None,
    ) -> None:
        self.now_s = 0.0
        self.cost = cost or Cost()
        self.scheduler = GeneratorScheduler(
            num_threads, max_streams, limits, clock=lambda: self.now_s
        )
        self.num_threads = num_threads
        self.num_busy = 0
        self.heard: dict[str, Heard] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._num_events = 0
        self._runs: dict[int, list[tuple[float, float]]] = {}
        self._names: dict[int, str] = {}

    def at(self, time_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time_s, self._num_events, do))
        self._num_events += 1

    def come(
        self,
        name: str,
        sentences_s: Sequence[float],
        *,
        is_live: bool = True,
        speed: float = 1.0,
    ) -> GeneratorRequest:
        """Add a request now, for sentences of these durations.

        Raises:
            OverloadedError: it is not let in.
        """
        request = self.scheduler.add(name, int(sum(sentences_s) * 16), is_live=is_live, speed=speed)
        self.heard[name] = Heard(self.now_s)
        self._runs[request.order] = runs(sentences_s, self.cost)
        self._names[request.order] = name
        self.scheduler.want(request)
        self._fill()
        return request

    def try_to_come(self, name: str, sentences_s: Sequence[float], **more: Any) -> float | None:
        """Come, or return after how long to come again."""
        try:
            self.come(name, sentences_s, **more)
        except OverloadedError as error:
            return error.retry_after_s
        return None

    def go(self, until_s: float = float("inf")) -> None:
        """Let time pass until nothing happens any more, or until a moment."""
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, do = heapq.heappop(self._events)
            do()
            self._fill()
        if until_s < float("inf"):
            self.now_s = until_s

    def learn(self) -> None:
        """Speak a few sentences, so that the pace is known; then it is time 0 again, so to say."""
        for number in range(4):
            self.come(f"warm {number}", [4.0])
        self.go()
        self.heard.clear()

    def _fill(self) -> None:
        while self.num_busy < self.num_threads:
            request = self.scheduler.schedule()
            if request is None:
                return
            self.num_busy += 1
            waiting = self._runs[request.order]
            run_s, audio_s = waiting.pop(0) if waiting else (0.0, 0.0)
            is_over = audio_s == 0.0
            self.at(self.now_s + run_s, partial(self._end, request, audio_s, is_over))

    def _end(self, request: GeneratorRequest, audio_s: float, is_over: bool) -> None:
        self.num_busy -= 1
        self.scheduler.update(request, audio_s, is_complete=is_over)
        heard = self.heard.get(self._names[request.order])
        if heard is None:  # it has left
            return
        if is_over:
            heard.is_over = True
            self.scheduler.remove(request)
            return
        heard.arrivals_s.append(self.now_s)
        heard.durations_s.append(audio_s)
        self.scheduler.want(request)

    def leave(self, name: str, request: GeneratorRequest) -> None:
        """A listener goes away, whatever is under way."""
        if not self.heard.pop(name).is_over:
            self.scheduler.remove(request)
            self._fill()


def runs(sentences_s: Sequence[float], cost: Cost) -> list[tuple[float, float]]:
    """Return how long each chunk takes, and how long it sounds."""
    sizes = list(CHUNKS_S)
    made: list[tuple[float, float]] = []
    for sentence_s in sentences_s:
        left_s, run_s = sentence_s, sentence_s * cost.sentence_s
        while left_s > 1e-9:
            audio_s = min(sizes.pop(0) if sizes else LONGEST_CHUNK_S, left_s)
            made.append((run_s + audio_s * cost.chunk_s, audio_s))
            left_s, run_s = left_s - audio_s, 0.0
    return made
