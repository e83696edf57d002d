"""A server whose pauses are measured from inside: ``python -m tests.chaos.watched``.

It reads pickled settings from stdin and prints its address. For each further line of stdin it
prints one line of JSON: the longest pauses since the line before. A line with a number makes one,
by adding up so many numbers on the event loop. Pauses are in CPU time, so that a busy machine makes
none of them longer, and those above the limit in that of the reference machine.
"""

import asyncio
import json
import os
import pickle
import resource
import sys
import threading
import time
from collections.abc import Mapping

from antiphon.concurrency import set_interpreter_for_streams, settle_heap
from tests.servers import RunningServer, start_server, wait_until
from tests.speed import slowness

MAX_PAUSE_S = 0.05
BEAT_S = 0.004


class LoopBeat:
    """CPU time that the event loop's thread spends between two turns of a timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.longest_s = 0.0
        self.num_turns = 0
        self._loop = loop
        self._last_s = 0.0
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._last_s = time.thread_time()
        self._beat()

    def _beat(self) -> None:
        now_s = time.thread_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        self.num_turns += 1
        self._loop.call_later(BEAT_S, self._beat)


class LockBeat(threading.Thread):
    """How long other threads keep this one from the interpreter's lock.

    A thread that wants the lock asks for it again and again, so that the number of its waits says
    how long it was refused. On a busy machine it comes to ask less often, which makes a pause seem
    shorter, never longer. A beat counts no further than one of the other threads was on a processor
    meanwhile, as one that holds the lock is.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest_s = 0.0
        self.num_turns = 0

    def run(self) -> None:
        num_waits, spent = _num_waits(), _cpu_times()
        while True:
            time.sleep(BEAT_S)
            waited_s = (_num_waits() - num_waits) * sys.getswitchinterval()
            now_spent = _cpu_times()
            most_s = max(cpu_s - spent.get(id, 0.0) for id, cpu_s in now_spent.items())
            self.longest_s = max(self.longest_s, min(waited_s, most_s))
            self.num_turns += 1
            num_waits, spent = _num_waits(), now_spent


def _num_waits() -> int:
    """Return how often this thread has given its processor away."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _cpu_times() -> Mapping[int, float]:
    """Return the CPU seconds of this process's other threads, by their ids."""
    found, own = {}, threading.get_native_id()
    for id in map(int, os.listdir("/proc/self/task")):
        if id != own:
            try:
                found[id] = time.clock_gettime((~id << 3) | 6)  # the kernel's clock of a thread
            except OSError:  # it has ended
                continue
    return found


def main() -> None:
    settings = pickle.load(sys.stdin.buffer)
    with start_server(settings, loop="asyncio") as server:
        settle_heap()  # as `antiphon serve` does, without which collections are the longest pauses
        set_interpreter_for_streams()
        _tell(server.base_url)
        _measure(server)


def _measure(server: RunningServer) -> None:
    loop_beat = LoopBeat(server.loop)
    lock_beat = LockBeat()
    lock_beat.start()
    for line in sys.stdin.buffer:
        if number := line.strip():
            server.loop.call_soon_threadsafe(sum, range(int(number)))
        _let_turn(loop_beat)
        _let_turn(lock_beat)
        _tell({"loop_s": _scaled(loop_beat.longest_s), "lock_s": _scaled(lock_beat.longest_s)})
        loop_beat.longest_s = lock_beat.longest_s = 0.0


def _let_turn(beat: LoopBeat | LockBeat) -> None:
    """Wait until a beat has begun and ended, so that it has booked what was before."""
    turn = beat.num_turns + 2
    wait_until(lambda: beat.num_turns >= turn)


def _scaled(pause_s: float) -> float:
    """Return what a pause above the limit would be on the reference machine."""
    return pause_s if pause_s < MAX_PAUSE_S else pause_s / slowness()


def _tell(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
