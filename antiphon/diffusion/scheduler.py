"""Plans which requests take the next step of denoising, and admits; knows no thread, no model."""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.diffusion.protocol import DenoisingWork
from antiphon.errors import InvalidRequestError

_COST_WEIGHT = 0.1
_FAULT = 1e-9
_MAX_KEYS = 4  # of batches that take turns; each more makes all of them slower
_OFFLINE_PATIENCE_S = 5.0
_GIB = 2**30
_FULL = "The server is drawing as much as it can."


@dataclass(slots=True, eq=False)
class DenoisingRequest:
    """A request that is to be denoised.

    Attributes:
        is_live: whether a client waits for it; otherwise it is offline.
        is_called: whether what it is conditioned on has been asked for.
        is_ready: whether that is there.
        is_begun: whether it holds a state.
        num_done: steps.
    """

    work: DenoisingWork
    is_live: bool
    order: int
    arrived_s: float
    is_called: bool = False
    is_ready: bool = False
    is_begun: bool = False
    num_done: int = 0

    @property
    def is_complete(self) -> bool:
        return self.num_done >= self.work.num_steps


@dataclass(slots=True)
class _Group:
    """Requests of one batch key.

    Attributes:
        used_s: denoiser time used, starting from that of the existing groups when this one began.
        stepped_s: time of the last step.
    """

    used_s: float
    stepped_s: float


class StepCostModel:
    """Seconds for each unit of `DenoisingWork.cost`, as batches really took them.

    Attributes:
        seconds_per_cost: mean over the steps so far; 0: unknown.
    """

    def __init__(self) -> None:
        self.seconds_per_cost = 0.0

    def observe(self, cost: float, duration_s: float) -> None:
        """Learn from a step of a batch: its cost is the sum of its requests'."""
        if cost <= _FAULT:
            return
        new = duration_s / cost
        before = self.seconds_per_cost
        self.seconds_per_cost = before + (new - before) * _COST_WEIGHT if before else new

    def seconds(self, cost: float, num_steps: int) -> float:
        """Predict the time of a request's steps; 0 if nothing is known."""
        return self.seconds_per_cost * cost * num_steps


class DiffusionScheduler:
    """Continuous batching of steps: before each one it is decided anew who takes it.

    Requests of equal batch key are stepped together, live ones first and in order of arrival, up
    to ``max_batch``. A request joins as soon as there is room in its batch, and holds a state from
    then on. Batches of different keys, a few of them, take turns so that each gets the same share
    of the denoiser's time: small images do not wait for a video to end.

    Offline requests are stepped while there are no live ones, and beside them where their batch has
    room. Those that have had no step for 5 s get one, so that they do not starve.

    States together take no more than ``max_bytes``, as far as the denoiser estimates their sizes.
    What is to begin next and does not fit holds up all that come after it.
    """

    def __init__(
        self,
        max_batch: int,
        *,
        max_requests: int,
        max_bytes: int | None = None,
        limits: AdmissionLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without requests.

        Args:
            max_requests: most requests that hold a state at the same time.
            max_bytes: memory limit of all states together; ``None``: no limit.
        """
        self.costs = StepCostModel()
        self._max_batch = min(max_batch, max_requests)
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._limits = limits or AdmissionLimits()
        self._clock = clock
        self._num_arrived = 0
        self._served_s = 0.0  # `_Group.used_s` of what was stepped last, as far as it grew
        self._requests: list[DenoisingRequest] = []  # live ones first, each in order of arrival
        self._groups: dict[Hashable, _Group] = {}  # of requests that hold a state

    @property
    def num_open(self) -> int:
        """Requests that have not left."""
        return len(self._requests)

    @property
    def num_running(self) -> int:
        """Requests that hold a state."""
        return sum(each.is_begun for each in self._requests)

    def add(
        self, work: DenoisingWork, *, is_live: bool = True, is_later: bool = False
    ) -> DenoisingRequest:
        """Admit a request; raises InvalidRequestError or OverloadedError.

        Args:
            is_live: whether a client waits for it.
            is_later: whether it was admitted elsewhere, and is never refused.
        """
        if self._max_bytes is not None and work.num_bytes > self._max_bytes:
            raise InvalidRequestError(
                f"The request needs {work.num_bytes / _GIB:.2f} GiB while it is denoised, and the"
                f" server has {self._max_bytes / _GIB:.2f} GiB for that: ask for a smaller size.",
                param="size",
            )
        request = DenoisingRequest(work, is_live, self._num_arrived, self._clock())
        if not is_later:
            self._check_queue(request)
        self._num_arrived += 1
        self._requests.append(request)
        self._requests.sort(key=_priority)
        return request

    def call(self) -> list[DenoisingRequest]:
        """Return the requests whose conditioning should be computed now.

        It is made for those that begin next, a batch of each of a few keys, so that it does not
        take memory for all that wait.
        """
        waiting = [each for each in self._requests if not each.is_begun]
        called: list[DenoisingRequest] = []
        for is_live in (True, False):  # offline requests are nothing that live ones wait for
            known = (each for each in waiting if each.is_called and each.is_live >= is_live)
            nearest = Counter(each.work.batch_key for each in known)
            for request in waiting:
                key = request.work.batch_key
                if request.is_called or request.is_live != is_live:
                    continue
                if nearest[key] < self._max_batch and (key in nearest or len(nearest) < _MAX_KEYS):
                    nearest[key] += 1
                    request.is_called = True
                    called.append(request)
        return called

    def schedule(self) -> list[DenoisingRequest]:
        """Return the requests that take the next step, all of one key; empty: there are none.

        They hold a state from now on.
        """
        begins = self._beginning()
        batches: dict[Hashable, list[DenoisingRequest]] = {}
        for request in self._requests:
            if request.is_begun or request in begins:
                batch = batches.setdefault(request.work.batch_key, [])
                if len(batch) < self._max_batch:
                    batch.append(request)
        if not batches:
            return []
        key = min(batches, key=lambda key: self._rank(key, batches[key]))
        group = self._groups.setdefault(key, _Group(self._served_s, self._clock()))
        self._served_s = max(self._served_s, group.used_s)
        for request in batches[key]:
            request.is_begun = True
        return batches[key]

    def update(self, batch: Iterable[DenoisingRequest], duration_s: float) -> None:
        """Note that a batch has taken a step."""
        batch = tuple(batch)
        for request in batch:
            request.num_done += 1
        self.costs.observe(sum(each.work.cost for each in batch), duration_s)
        if batch and (group := self._groups.get(batch[0].work.batch_key)) is not None:
            group.used_s += duration_s
            group.stepped_s = self._clock()

    def remove(self, request: DenoisingRequest) -> None:
        """Forget a request, whose state is dropped."""
        self._requests.remove(request)
        key = request.work.batch_key
        if not any(each.is_begun and each.work.batch_key == key for each in self._requests):
            self._groups.pop(key, None)

    def _check_queue(self, request: DenoisingRequest) -> None:
        """Admit a request if it may begin at once with all that wait before it, or may wait."""
        waiting = [each for each in self._requests if not each.is_begun]
        begins = self._beginning(among=[*waiting, request])
        if request in begins:
            return
        queue = [each for each in waiting if each not in begins]
        num_ahead = sum(each.is_live == request.is_live for each in queue)
        wait_s = self._wait_s(request.is_live, begins)
        self._limits.check(num_ahead, wait_s, is_live=request.is_live, message=_FULL)

    def _wait_s(self, is_live: bool, begins: Collection[DenoisingRequest]) -> float:
        """Return the predicted wait of a new request until it begins; 0 if nothing is known.

        Those that have begun, or do so at once, advance alike, and each that ends is replaced by
        the next.
        """
        ahead = [each for each in self._requests if each.is_live or not is_live]
        ends_s: list[float] = []
        waits_s: list[float] = []
        for each in ahead:
            is_running = each.is_begun or each in begins
            (ends_s if is_running else waits_s).append(self._left_s(each))
        if not ends_s:
            return sum(waits_s)
        heapq.heapify(ends_s)
        for left_s in waits_s:
            heapq.heapreplace(ends_s, ends_s[0] + left_s)
        return ends_s[0] * len(ends_s)

    def _left_s(self, request: DenoisingRequest) -> float:
        work = request.work
        return self.costs.seconds(work.cost, work.num_steps - request.num_done)

    def _beginning(self, among: Iterable[DenoisingRequest] | None = None) -> list[DenoisingRequest]:
        """Return the requests that may begin now; by default, of those that are ready."""
        begun = [each for each in self._requests if each.is_begun]
        num_bytes = sum(each.work.num_bytes for each in begun)
        candidates = self._requests if among is None else sorted(among, key=_priority)
        found: list[DenoisingRequest] = []
        for request in candidates:
            if request.is_begun or (among is None and not request.is_ready):
                continue
            if len(begun) >= self._max_requests:
                break
            num_bytes += request.work.num_bytes
            if begun and self._max_bytes is not None and num_bytes > self._max_bytes:
                break
            if not self._has_room(begun, request):
                num_bytes -= request.work.num_bytes
                continue
            begun.append(request)
            found.append(request)
        return found

    def _has_room(self, begun: list[DenoisingRequest], request: DenoisingRequest) -> bool:
        """Whether a request fits into its batch, and its batch among the others.

        Offline requests are nothing that a live one would wait for.
        """
        rivals = [each for each in begun if each.is_live or not request.is_live]
        key = request.work.batch_key
        num_beside = sum(each.work.batch_key == key for each in rivals)
        if num_beside:
            return num_beside < self._max_batch
        return len({each.work.batch_key for each in rivals}) < _MAX_KEYS

    def _rank(self, key: Hashable, batch: list[DenoisingRequest]) -> tuple[bool, float, int]:
        """Return the sort key of a batch: live before offline, then the least served."""
        group = self._groups.get(key) or _Group(self._served_s, batch[0].arrived_s)
        waits_s = self._clock() - group.stepped_s
        is_behind = not batch[0].is_live and waits_s < _OFFLINE_PATIENCE_S
        return is_behind, group.used_s, batch[0].order


def _priority(request: DenoisingRequest) -> tuple[bool, int]:
    return not request.is_live, request.order
