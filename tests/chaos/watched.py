"""A server whose pauses are measured from inside: ``python -m tests.chaos.watched``.

It reads pickled settings from stdin and prints its address. For each further line of stdin it
prints one line of JSON: the longest pauses since the line before; ``hold`` makes one. Pauses are
in CPU time, so that a busy machine makes none of them longer.
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

import httpx

from tests.servers import RunningServer, start_server, wait_until

BEAT_S = 0.004


class LoopBeat:
    """CPU time that the event loop's thread spends between two turns of a timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.longest_s = 0.0
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
        self._loop.call_later(BEAT_S, self._beat)


class LockBeat(threading.Thread):
    """How long other threads keep this one from the interpreter's lock.

    A thread that wants the lock asks for it again and again, so that the number of its waits says
    how long it was refused; on a busy machine it comes to ask less often. A beat counts no further
    than one of the other threads was on a processor meanwhile, as one that holds the lock is.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest_s = 0.0

    def run(self) -> None:
        num_waits, spent = _num_waits(), _cpu_times()
        while True:
            time.sleep(BEAT_S)
            waited_s = (_num_waits() - num_waits) * sys.getswitchinterval()
            now_spent = _cpu_times()
            most_s = max(cpu_s - spent.get(id, 0.0) for id, cpu_s in now_spent.items())
            self.longest_s = max(self.longest_s, min(waited_s, most_s))
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
    """Serve until stdin ends."""
    settings = pickle.load(sys.stdin.buffer)
    with start_server(settings, loop="asyncio") as server:
        wait_until(lambda: httpx.get(f"{server.base_url}/ready").status_code == 200)
        _tell(server.base_url)
        _measure(server)


def _measure(server: RunningServer) -> None:
    loop_beat = LoopBeat(server.loop)
    lock_beat = LockBeat()
    lock_beat.start()
    for line in sys.stdin.buffer:
        if line == b"hold\n":
            sum(range(20_000_000))  # one call, of 200 ms
        time.sleep(2 * BEAT_S)  # a pause that has just ended is booked by the next beat
        _tell({"loop_s": loop_beat.longest_s, "lock_s": lock_beat.longest_s})
        if line != b"hold\n":
            loop_beat.longest_s = lock_beat.longest_s = 0.0


def _tell(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
