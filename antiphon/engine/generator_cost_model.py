"""Cost model of generators: measured throughput and duration of runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import exp

_MEMORY_S = 5.0  # of work, over which the throughput is averaged
_WEIGHT = 0.1  # of a new measurement, where all count alike
_LONGEST_FADES = 0.99


@dataclass(slots=True, eq=False)
class GeneratorWork:
    """Cost and audio of a request so far.

    Attributes:
        work_s: share of the machine's time: a second in which two threads were busy is half a
            second for each.
        began_work_s: start of the run in flight, in working time.
    """

    num_tokens: int
    audio_s: float = 0.0
    work_s: float = 0.0
    num_runs: int = 0
    began_s: float = 0.0
    began_work_s: float = 0.0


class GeneratorCostModel:
    """Estimates the speed of one generator's threads from their runs; a run makes a chunk.

    Time is shared among the runs that are in flight together. So the estimates include what several
    threads gain, or lose to one another and to other processes, and no throughput exceeds what the
    machine has reached.

    Attributes:
        throughput: seconds of audio that all threads together make in a second; 0: unknown.
        start_work_s: working time before a request's first chunk.
        long_run_s: time that few runs exceed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._num_running = 0
        self._now_s = clock()
        self._work_s = 0.0
        self._audio_sum_s = self._work_sum_s = 0.0
        self._audio_s_per_token = 0.0
        self.start_work_s = self.mean_run_s = self.long_run_s = 0.0

    @property
    def throughput(self) -> float:
        return self._audio_sum_s / self._work_sum_s if self._work_sum_s else 0.0

    def audio_left_s(self, work: GeneratorWork) -> float:
        """Return the expected further audio of a request."""
        expected_s = self._audio_s_per_token * max(work.num_tokens, 1)
        return max(expected_s - work.audio_s, 0.0)

    def begin(self, work: GeneratorWork) -> None:
        self._advance()
        self._num_running += 1
        work.began_s, work.began_work_s = self._now_s, self._work_s

    def end(self, work: GeneratorWork, audio_s: float) -> None:
        """End a run that has made a chunk, or found that there is none."""
        self._advance()
        self._num_running -= 1
        work_s, run_s = self._work_s - work.began_work_s, self._now_s - work.began_s
        if work.num_runs == 0:
            self.start_work_s = _mean(self.start_work_s, work_s)
        self.mean_run_s = _mean(self.mean_run_s, run_s)
        self.long_run_s = max(run_s, self.long_run_s * _LONGEST_FADES)
        work.work_s += work_s
        work.audio_s += audio_s
        work.num_runs += 1

    def complete(self, work: GeneratorWork) -> None:
        """Update estimates with a complete request; single chunks differ too much in cost."""
        if not (work.audio_s > 0 and work.work_s > 0):
            return
        kept = exp(-work.work_s / _MEMORY_S)
        self._audio_sum_s = self._audio_sum_s * kept + work.audio_s
        self._work_sum_s = self._work_sum_s * kept + work.work_s
        ratio = work.audio_s / max(work.num_tokens, 1)
        self._audio_s_per_token = _mean(self._audio_s_per_token, ratio)

    def _advance(self) -> None:
        now_s = self._clock()
        if self._num_running:
            self._work_s += (now_s - self._now_s) / self._num_running
        self._now_s = now_s


def _mean(before: float, new: float) -> float:
    """Return a running mean that begins with the first value."""
    return before + (new - before) * _WEIGHT if before else new
