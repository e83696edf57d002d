"""Decides which generator makes its next chunk, and who is let in; knows no thread and no model."""

import heapq
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import inf

from antiphon.engine.admission import AdmissionLimits, check_wait
from antiphon.engine.generator_pace import GeneratorPace, Progress
from antiphon.engine.scheduling_policy import PlaybackPolicy, heard_until_s

_BULK_PATIENCE_S = 5.0


@dataclass(slots=True, eq=False)
class Listener:
    """Who hears a stream, which may be made in several parts.

    Attributes:
        speed: at which it is played.
        parts: speakers that make it, in order; none that has left.
        has_begun: whether one of them has ever had a turn.
        deadline_s: when all audio so far will have been heard; ``inf``: there was none yet.
    """

    speed: float
    parts: list["Speaker"] = field(default_factory=list)
    has_begun: bool = False
    deadline_s: float = inf


@dataclass(slots=True, eq=False)
class Speaker:
    """A generator at work on one prompt.

    Attributes:
        stream_id: names the stream that it makes a part of.
        listener: to the stream; ``None``: it is bulk work.
        order: of arrival.
        progress: what it has made.
        is_running: whether its turn is under way.
        asked_s: since when its next chunk is wanted; ``None``: it is not.
    """

    stream_id: str
    listener: Listener | None
    order: int
    progress: Progress
    is_running: bool = False
    asked_s: float | None = None


class GeneratorScheduler:
    """The playback clock for models that own their loop.

    A generator is advanced by one chunk at a time, when that chunk is wanted; whoever does not read
    is not worked for. A chunk that is under way is not interrupted. Of those that are wanted:

    1. Listeners come first who have less slack than a round takes: everybody's next chunk once, and
       the longest run of all. The one nearest to silence is the first of them.
    2. Then whoever waits for a first sound, in order of arrival, as long as all that have begun can
       be kept gapless.
    3. Then all others by slack. Bulk work is among them, in order of arrival, as if it were a
       listener who had five seconds of slack when its chunk was asked for: so it fills the time
       that listeners leave. When these seconds are over, only those go before it who would halt
       meanwhile, and after five more nobody does.

    Bulk work leaves one thread to listeners while there are any, if there is more than one.

    Who comes is let in if the machine can keep pace with one stream more. Otherwise, and where many
    wait for their first sound, it may wait if that will not take too long; or it is refused. A
    later part of a stream was let in with its beginning.
    """

    def __init__(
        self,
        num_threads: int,
        max_streams: int,
        limits: AdmissionLimits | None = None,
        policy: PlaybackPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with nobody.

        Args:
            num_threads: that compute at the same time.
            max_streams: listeners who are spoken to at the same time, however fast it goes.
            limits: of what is let in.
            policy: says what slack is comfortable.
            clock: gives seconds.
        """
        self.pace = GeneratorPace(clock)
        self._num_threads = num_threads
        self._max_streams = max_streams
        self._limits = limits or AdmissionLimits()
        self._policy = policy or PlaybackPolicy()
        self._clock = clock
        self._num_arrived = 0
        self._num_bulk_running = 0
        self._listeners: dict[str, Listener] = {}
        self._bulk: dict[int, Speaker] = {}
        self._bulk_asking: list[int] = []  # a heap of orders; those that have left lie there too

    @property
    def num_open(self) -> int:
        """Speakers that have not left."""
        return len(self._bulk) + sum(len(each.parts) for each in self._listeners.values())

    def add(
        self,
        stream_id: str,
        num_tokens: int,
        *,
        is_live: bool = True,
        is_later: bool = False,
        speed: float = 1.0,
    ) -> Speaker:
        """Let a request in.

        Args:
            stream_id: names the stream that it makes a part of.
            num_tokens: that it reads.
            is_live: whether somebody listens meanwhile.
            is_later: whether it goes on with a stream that was let in.
            speed: at which it is played.

        Raises:
            OverloadedError: says when to come again.
        """
        if not is_live:
            self._check_bulk()
        elif not is_later:
            self._check_live(speed)
        speaker = Speaker(stream_id, None, self._num_arrived, Progress(num_tokens))
        self._num_arrived += 1
        if not is_live:
            self._bulk[speaker.order] = speaker
            return speaker
        listener = self._listeners.setdefault(stream_id, Listener(speed))
        if is_later and not listener.parts:  # what went before may have been heard by now
            listener.has_begun, listener.deadline_s = True, self._clock()
        listener.parts.append(speaker)
        speaker.listener = listener
        return speaker

    def ask(self, speaker: Speaker) -> None:
        """Want a speaker's next chunk."""
        assert speaker.asked_s is None, "it is wanted already"
        assert not speaker.is_running, "one chunk at a time"
        speaker.asked_s = self._clock()
        if speaker.listener is None:
            heapq.heappush(self._bulk_asking, speaker.order)

    def next(self) -> Speaker | None:
        """Begin a turn, and return whose it is; ``None``: nobody's may begin."""
        now_s = self._clock()
        comfort_s = self._comfort_s()
        asking = [
            part
            for listener in self._listeners.values()
            if listener.has_begun
            for part in listener.parts
            if part.asked_s is not None
        ]
        if (first := self._first_to_begin()) is not None:
            asking.append(first)
        if (bulk := self._first_bulk()) is not None:
            asking.append(bulk)
        if not asking:
            return None
        chosen = min(asking, key=lambda each: self._rank(each, now_s, comfort_s))
        chosen.asked_s, chosen.is_running = None, True
        if chosen.listener is not None:
            chosen.listener.has_begun = True
        else:
            heapq.heappop(self._bulk_asking)
            self._num_bulk_running += 1
        self.pace.begin(chosen.progress)
        return chosen

    def end(self, speaker: Speaker, audio_s: float, *, is_complete: bool = False) -> None:
        """End a turn, also of a speaker that has left.

        Args:
            speaker: whose turn it was.
            audio_s: duration of the chunk.
            is_complete: whether there was none any more.
        """
        speaker.is_running = False
        self.pace.end(speaker.progress, audio_s)
        if (listener := speaker.listener) is None:
            self._num_bulk_running -= 1
        elif not is_complete:
            played_s = audio_s / listener.speed
            listener.deadline_s = heard_until_s(listener.deadline_s, self._clock(), played_s)
        if is_complete:
            self.pace.complete(speaker.progress)

    def leave(self, speaker: Speaker) -> None:
        """Forget a speaker, wherever it is; its turn, if one is under way, still has to end."""
        speaker.asked_s = None
        if (listener := speaker.listener) is None:
            del self._bulk[speaker.order]
            return
        listener.parts.remove(speaker)
        if not listener.parts:
            del self._listeners[speaker.stream_id]

    def wait_s(self, speed: float = 1.0) -> float:
        """Return how long a listener who came now would wait for a first turn, as far as is known.

        Args:
            speed: at which it would play.
        """
        if not self.pace.speed:
            return 0.0
        start_s = self._start_s()
        if self._has_room(speed):
            return start_s
        # All that have begun get on alike, and whoever ends makes room for the next in line.
        lefts_s: dict[bool, list[float]] = {True: [], False: []}
        for listener in self._listeners.values():
            left_s = sum(self.pace.audio_left_s(each.progress) for each in listener.parts)
            lefts_s[listener.has_begun].append(left_s)
        ends_s, num_begun = lefts_s[True] or [0.0], len(lefts_s[True])
        heapq.heapify(ends_s)
        for left_s in lefts_s[False]:
            heapq.heapreplace(ends_s, ends_s[0] + left_s)
        return max(start_s, ends_s[0] * num_begun / self.pace.speed)

    def _check_live(self, speed: float) -> None:
        wait_s = self.wait_s(speed)
        if not self._has_room(speed) or wait_s > self._limits.max_wait_s:
            check_wait(self._limits, self._num_waiting, wait_s, is_live=True)

    def _check_bulk(self) -> None:
        num_ahead, wait_s = len(self._bulk), 0.0
        if num_ahead >= self._limits.max_waiting_bulk and self.pace.speed:
            lefts_s = (self.pace.audio_left_s(each.progress) for each in self._bulk.values())
            wait_s = sum(lefts_s) / num_ahead / self.pace.speed  # until one of them has ended
        check_wait(self._limits, num_ahead, wait_s, is_live=False)

    @property
    def _num_waiting(self) -> int:
        """Listeners who wait for a first turn."""
        return sum(not each.has_begun for each in self._listeners.values())

    def _has_room(self, speed: float) -> bool:
        """Whether a listener more, besides all who are here, could be kept gapless."""
        return self._fits(self._listeners.values(), speed)

    def _first_to_begin(self) -> Speaker | None:
        """Return who may have a first turn: the one that has waited longest, if there is room."""
        begun: list[Listener] = []
        waiting: Listener | None = None
        for listener in self._listeners.values():
            if listener.has_begun:
                begun.append(listener)
            elif waiting is None and listener.parts[0].asked_s is not None:
                waiting = listener
        if waiting is None or not self._fits(begun, waiting.speed):
            return None
        return waiting.parts[0]

    def _fits(self, listeners: Collection[Listener], speed: float) -> bool:
        """Whether there is room for one more; nobody is refused by an idle machine."""
        if not listeners:
            return True
        if len(listeners) >= self._max_streams:
            return False
        load = sum(each.speed for each in listeners) + speed
        return not self.pace.speed or load <= self._limits.max_load * self.pace.speed

    def _start_s(self) -> float:
        """Time until all who wait have begun and can wait again, and a thread is free for one more.

        That takes a first chunk of each, and audio up to where its listener is comfortable.
        """
        num_waiting = self._num_waiting
        num_ahead = max(num_waiting + 1 - self._num_threads, 0)
        load = sum(each.speed for each in self._listeners.values()) - num_waiting / 2
        used = min(load / self.pace.speed, self._limits.max_load)  # half of them, on average
        begin_s = self.pace.start_work_s + self._comfort_s() / self.pace.speed
        return num_ahead * begin_s / (1 - used)

    def _comfort_s(self) -> float:
        """Slack with which a listener can wait until everybody has had a turn."""
        round_s = len(self._listeners) * self.pace.mean_run_s / self._num_threads
        return self._policy.comfort_s + self.pace.long_run_s + round_s

    def _rank(self, speaker: Speaker, now_s: float, comfort_s: float) -> tuple[int, float, int]:
        """Return what sorts those who ask, as the class says."""
        assert speaker.asked_s is not None
        listener = speaker.listener
        if listener is None:
            return *self._bulk_rank(speaker.asked_s + _BULK_PATIENCE_S, now_s), speaker.order
        if listener.deadline_s == inf:
            return 1, 0.0, speaker.order
        deadline_s = listener.deadline_s
        for earlier in listener.parts:
            if earlier is speaker:
                break
            deadline_s += self.pace.audio_left_s(earlier.progress) / listener.speed
        return (0 if deadline_s < now_s + comfort_s else 2), deadline_s, speaker.order

    def _bulk_rank(self, deadline_s: float, now_s: float) -> tuple[int, float]:
        """Return what sorts bulk work among listeners: none halts for it until it is very late."""
        if deadline_s > now_s:
            return 2, deadline_s
        is_very_late = deadline_s + _BULK_PATIENCE_S < now_s
        return 0, (deadline_s if is_very_late else now_s + self.pace.long_run_s)

    def _first_bulk(self) -> Speaker | None:
        """Return the bulk work that is next, if it may have one thread more."""
        max_running = max(1, self._num_threads - bool(self._listeners))
        if self._num_bulk_running >= max_running:
            return None
        while self._bulk_asking:
            speaker = self._bulk.get(self._bulk_asking[0])
            if speaker is not None:
                return speaker
            heapq.heappop(self._bulk_asking)  # it has left
        return None
