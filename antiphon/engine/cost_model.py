"""Cost model of steps: a guess at first, then measurements."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from antiphon.engine.plan import StepPlan
from antiphon.engine.runner import FRAME_BUCKETS, ROW_BUCKETS, TOKEN_BUCKETS

PASS_BUCKETS = (1, 2, 4, 8, *TOKEN_BUCKETS, 2048, 4096, 8192)

_WEIGHT = 0.1  # of a new measurement
_FAR_RATIO = 1.5  # measured to expected, or its inverse, from which an expectation is far off
_FAR_WEIGHT = 0.5  # of a measurement that is far off on the same side as the one before
_SLOW_WEIGHT = 0.02  # of a measurement of what is not in every step
_MAX_RATIO = 4.0  # of measured to expected; beyond it the cause is not the step
_NUM_TO_TRUST = 16
_NUM_DEVIATIONS = 2.0


@dataclass(frozen=True, slots=True)
class StepShape:
    """The sizes of a plan that determine its duration."""

    num_rows: int = 0
    num_positions: int = 0
    num_codec_frames: int = 0

    @classmethod
    def of(cls, plan: StepPlan) -> "StepShape":
        num_positions = sum(prefill.end - prefill.start for prefill in plan.prefills)
        num_codec_frames = sum(chunk.num_frames for chunk in plan.codec_chunks)
        num_codec_frames += sum(replay.end - replay.start for replay in plan.codec_replays)
        return cls(len(plan.decode_slots), num_positions, num_codec_frames)


class Curve:
    """Seconds by size, for work whose sizes are rounded up to buckets.

    The curve is monotonic: a measurement raises larger buckets and lowers smaller ones to it. It is
    at most proportional, since work can be split; so a bucket that was slow once, and is avoided
    since then, recovers when smaller ones are measured. Buckets without a measurement are scaled by
    the same factor as the latest one.
    """

    def __init__(self, buckets: Sequence[int], guess: Callable[[int], float]) -> None:
        self._buckets = tuple(buckets)
        self._seconds = [guess(size) for size in buckets]
        self._is_measured = [False] * len(buckets)
        self._far_sides = [0] * len(buckets)  # of the latest measurement: 1 above, -1 below

    def seconds(self, size: int) -> float:
        """Return how long work of this size takes; 0 for size 0."""
        if size <= 0:
            return 0.0
        index = self._index(size)
        return self._seconds[index] * max(1.0, size / self._buckets[index])

    def size_within(self, seconds: float) -> int:
        """Return the largest size that takes no longer, by buckets."""
        index = bisect_right(self._seconds, seconds) - 1
        if index < 0:
            return 0
        largest = self._buckets[index]
        is_last = index == len(self._buckets) - 1
        return int(largest * seconds / self._seconds[index]) if is_last else largest

    def is_measured(self, size: int) -> bool:
        return size <= 0 or self._is_measured[self._index(size)]

    def hold(self, size: int) -> None:
        """Treat the expectation of this size as measured: only `correct` of it changes it then."""
        self._is_measured[self._index(size)] = True

    def correct(self, size: int, ratio: float, *, first_weight: float = _WEIGHT) -> None:
        """Record that work of this size took ``ratio`` (measured to expected) of the time."""
        index = self._index(size)
        side = (ratio > _FAR_RATIO) - (ratio < 1 / _FAR_RATIO)
        weight = _FAR_WEIGHT if side and side == self._far_sides[index] else _WEIGHT
        self._far_sides[index] = side
        factor = 1 + (ratio - 1) * (weight if self._is_measured[index] else first_weight)
        self._is_measured[index] = True
        for other, is_measured in enumerate(self._is_measured):
            if other == index or not is_measured:
                self._seconds[other] *= factor
        for other in range(index + 1, len(self._seconds)):
            in_parts_s = self._seconds[index] * self._buckets[other] / self._buckets[index]
            seconds = max(self._seconds[other], self._seconds[other - 1])
            self._seconds[other] = min(seconds, in_parts_s)
        for other in range(index - 1, -1, -1):
            self._seconds[other] = min(self._seconds[other], self._seconds[other + 1])

    def _index(self, size: int) -> int:
        return min(bisect_left(self._buckets, size), len(self._buckets) - 1)


class CostModel:
    """Estimates the duration of an engine's steps from measurements.

    Prompts go through the layers in one pass with the rows of their step: their cost is the
    difference to a pass over the rows alone.

    A measurement is of a whole step; rows and codec share its deviation in proportion. The first
    one counts for the rows in full, since every step has them. Once the cost of rows is known, the
    rest of a step with prompts is the cost of the prompts.

    Attributes:
        long_step_s: duration that few steps exceed.
        mean_frame_s: time between two frames of a request: a step, or longer if they arrive from
            another stage; ``inf`` before the first step.
        long_frame_s: time that few frames exceed.
        mean_prefill_s: share of prompts in the duration of a step.
    """

    def __init__(self, row_buckets: Sequence[int] = ROW_BUCKETS) -> None:
        self._rows = Curve(row_buckets, lambda rows: 2.5e-3 + 25e-6 * rows)
        self._passes = Curve(PASS_BUCKETS, lambda tokens: 1.5e-3 + 6e-6 * tokens)
        self._codec_frames = Curve(FRAME_BUCKETS, lambda frames: 0.6e-3 + 15e-6 * frames)
        self._num_observed = 0
        self.mean_step_s = self._rows.seconds(1)
        self.mean_prefill_s = 0.0
        self._deviation_s = 0.0
        self._mean_arrival_s = self._arrival_deviation_s = 0.0

    @property
    def long_step_s(self) -> float:
        return self.mean_step_s + _NUM_DEVIATIONS * self._deviation_s

    @property
    def mean_frame_s(self) -> float:
        return max(self.mean_step_s, self._mean_arrival_s) if self._num_observed else inf

    @property
    def long_frame_s(self) -> float:
        long_arrival_s = self._mean_arrival_s + _NUM_DEVIATIONS * self._arrival_deviation_s
        return max(self.long_step_s, long_arrival_s)

    @property
    def is_trusted(self) -> bool:
        """Whether enough was measured to refuse requests by it."""
        return self._num_observed >= _NUM_TO_TRUST

    def rows_s(self, num_rows: int) -> float:
        """Return how long a frame of ``num_rows`` slots takes."""
        return self._rows.seconds(num_rows)

    def codec_s(self, num_frames: int) -> float:
        """Return how long the codec takes for all chunks of a step together."""
        return self._codec_frames.seconds(num_frames)

    def codec_frames_within(self, seconds: float) -> int:
        """Return how many frames the codec decodes in this time."""
        return self._codec_frames.size_within(seconds)

    def prefill_s(self, num_rows: int, num_positions: int) -> float:
        """Return how much longer a step takes with prompt positions beside its rows."""
        if num_positions <= 0:
            return 0.0
        return self._passes.seconds(num_rows + num_positions) - self._passes.seconds(num_rows)

    def positions_within(self, num_rows: int, seconds: float) -> int:
        """Return how many prompt positions make a step longer by this time at most.

        Without rows, longer than the smallest pass.
        """
        num_tokens = self._passes.size_within(self._passes.seconds(max(1, num_rows)) + seconds)
        return max(0, num_tokens - num_rows)

    def step_s(self, shape: StepShape) -> float:
        return (
            self._rows.seconds(shape.num_rows)
            + self.prefill_s(shape.num_rows, shape.num_positions)
            + self._codec_frames.seconds(shape.num_codec_frames)
        )

    def observe(self, shape: StepShape, seconds: float) -> None:
        expected = self.step_s(shape)
        if expected == 0.0:
            return
        most = _MAX_RATIO if self._num_observed else inf  # a CPU may be far from the guess
        ratio = min(max(seconds / expected, 1 / _MAX_RATIO), most)
        surprise_s = expected * ratio - self.mean_step_s
        self.mean_step_s += surprise_s * max(_WEIGHT, 1 / (1 + self._num_observed))
        self._deviation_s += (abs(surprise_s) - self._deviation_s) * _WEIGHT
        prefill_s = self.prefill_s(shape.num_rows, shape.num_positions)
        self.mean_prefill_s += (prefill_s - self.mean_prefill_s) * _SLOW_WEIGHT
        self._num_observed += 1
        is_rest_known = self._rows.is_measured(shape.num_rows)
        is_rest_known &= self._codec_frames.is_measured(shape.num_codec_frames)
        if shape.num_positions and is_rest_known:
            self._observe_pass(shape, expected, seconds)
            return
        if shape.num_rows:
            self._rows.correct(shape.num_rows, ratio, first_weight=1.0)
        if shape.num_codec_frames:
            self._codec_frames.correct(shape.num_codec_frames, ratio)

    def _observe_pass(self, shape: StepShape, expected_s: float, seconds: float) -> None:
        """Update the duration of a pass over rows and prompts, from a step whose rest is known.

        It is at least that of a pass over the rows alone, which is held: where prompts cost
        nothing, steps slightly shorter than expected would make all passes ever shorter.
        """
        num_tokens = shape.num_rows + shape.num_positions
        pass_s, rows_s = self._passes.seconds(num_tokens), self._passes.seconds(shape.num_rows)
        if shape.num_rows:
            self._passes.hold(shape.num_rows)
        ratio = max(pass_s + seconds - expected_s, rows_s) / pass_s
        ratio = min(max(ratio, 1 / _MAX_RATIO), _MAX_RATIO)
        self._passes.correct(num_tokens, ratio, first_weight=_FAR_WEIGHT)

    def observe_arrival(self, seconds: float) -> None:
        """Record the time between two frames that arrived from another stage.

        A frame may have waited for text, so a single long time counts for little.
        """
        seconds = min(seconds, self.mean_frame_s * _MAX_RATIO)
        surprise_s = seconds - self._mean_arrival_s
        self._mean_arrival_s += surprise_s * _WEIGHT
        self._arrival_deviation_s += (abs(surprise_s) - self._arrival_deviation_s) * _WEIGHT
