"""Who takes the next step: shares of time, priorities, memory, and what is admitted."""

from collections import Counter, defaultdict
from collections.abc import Hashable

import pytest

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.diffusion.protocol import DenoisingWork, preview_steps
from antiphon.diffusion.scheduler import DenoisingRequest, DiffusionScheduler
from antiphon.errors import OverloadedError


def work(key: Hashable = "image", num_steps: int = 10, **changes: float) -> DenoisingWork:
    given = {"cost": 1.0, "num_bytes": 0, **changes}
    return DenoisingWork(
        num_steps=num_steps,
        cost=given["cost"],
        num_bytes=int(given["num_bytes"]),
        batch_key=key,
    )


class Machine:
    """Steps what a scheduler chooses, on a clock of its own; keeps the time spent on each key."""

    def __init__(self, max_batch: int = 4, max_requests: int = 64, **settings: object) -> None:
        self.now_s = 0.0
        self.served_s: defaultdict[Hashable, float] = defaultdict(float)
        self.ended: list[DenoisingRequest] = []
        self.scheduler = DiffusionScheduler(
            max_batch,
            max_requests=max_requests,
            clock=lambda: self.now_s,
            **settings,  # type: ignore[arg-type]
        )

    def add(self, what: DenoisingWork, *, is_live: bool = True) -> DenoisingRequest:
        request = self.scheduler.add(what, is_live=is_live)
        request.is_ready = True
        return request

    def step(self) -> list[DenoisingRequest]:
        batch = self.scheduler.schedule()
        duration_s = sum(each.work.cost for each in batch)
        self.now_s += duration_s
        self.scheduler.update(batch, duration_s)
        for each in batch:
            self.served_s[each.work.batch_key] += duration_s / len(batch)
            if each.is_complete:
                self.scheduler.remove(each)
                self.ended.append(each)
        return batch

    def run(self) -> None:
        while self.step():
            pass


def test_a_batch_has_one_key_and_no_more_than_fit() -> None:
    machine = Machine(max_batch=3)
    for number in range(20):
        machine.add(work("ab"[number % 2], num_steps=1 + number % 5))
    while batch := machine.step():
        assert len({each.work.batch_key for each in batch}) == 1
        assert len(batch) <= 3
    assert len(machine.ended) == 20


def test_requests_of_one_key_begin_in_order_of_arrival() -> None:
    machine = Machine(max_batch=2)
    several = [machine.add(work()) for _ in range(6)]
    machine.run()
    assert machine.ended == several


def test_batches_of_different_keys_share_the_time() -> None:
    machine = Machine()
    machine.add(work("video", num_steps=1000, cost=10.0))
    for _ in range(20):
        machine.step()
    begun_s, before_s = machine.now_s, machine.served_s["video"]
    image = machine.add(work("image", num_steps=50))
    while image not in machine.ended:
        machine.step()
    assert machine.now_s - begun_s <= 2 * 50 + 10.0
    assert machine.served_s["video"] - before_s >= 50 - 10.0, "and the video was not held up"


def test_what_comes_later_has_no_credit_for_the_time_before() -> None:
    machine = Machine()
    machine.add(work("old", num_steps=1000))
    for _ in range(500):
        machine.step()
    machine.add(work("new", num_steps=1000))
    for _ in range(100):
        machine.step()
    assert abs(machine.served_s["new"] - 50) <= 1


def test_offline_requests_are_behind_live_ones_and_do_not_starve() -> None:
    machine = Machine(max_batch=1)
    offline = machine.add(work("offline", num_steps=5), is_live=False)
    live = [machine.add(work("live", num_steps=10)) for _ in range(10)]
    assert machine.step() == live[:1]
    steps = [machine.step() for _ in range(40)]
    num_offline = sum(batch == [offline] for batch in steps)
    assert 3 <= num_offline <= 5, "about one step each 5 s, at a second a step"
    machine.run()
    assert len(machine.ended) == 11


def test_offline_requests_fill_the_batch_of_live_ones() -> None:
    machine = Machine(max_batch=3)
    offline = [machine.add(work(), is_live=False) for _ in range(3)]
    assert machine.step() == offline
    live = machine.add(work())
    assert machine.step() == [live, *offline[:2]], "one that has begun waits for it"


def test_what_does_not_fit_holds_up_those_behind_it() -> None:
    machine = Machine(max_bytes=100)
    small = machine.add(work("a", num_bytes=60, num_steps=3))
    large = machine.add(work("b", num_bytes=90))
    last = machine.add(work("c", num_bytes=10))
    for _ in range(3):
        assert machine.step() == [small]
    assert machine.step() == [large]
    assert machine.step() == [last]


def test_few_keys_take_turns_and_the_others_wait() -> None:
    machine = Machine()
    for key in range(10):
        machine.add(work(key, num_steps=10))
    for _ in range(20):
        machine.step()
        assert len({each.work.batch_key for each in running(machine)}) <= 4
    machine.run()
    assert len(machine.ended) == 10


def running(machine: Machine) -> list[DenoisingRequest]:
    return [each for each in machine.scheduler._requests if each.is_begun]


def test_no_more_requests_hold_a_state_than_may() -> None:
    machine = Machine(max_requests=2)
    for key in range(6):
        machine.add(work(key))
    while machine.step():
        assert machine.scheduler.num_running <= 2
    assert len(machine.ended) == 6


def test_a_predicted_wait_that_is_too_long_is_refused_and_tells_it() -> None:
    machine = Machine(max_batch=1, max_requests=1, limits=AdmissionLimits(max_wait_s=25.0))
    machine.add(work(num_steps=20))
    machine.add(work(num_steps=20))  # nothing is known of their time yet
    for _ in range(8):
        machine.step()
    with pytest.raises(OverloadedError) as caught:
        machine.add(work())
    assert caught.value.retry_after_s == pytest.approx(12 + 20)
    machine.add(work(), is_live=False)
    for _ in range(8):
        machine.step()
    machine.add(work())


def test_requests_that_fit_at_once_do_not_count_as_waiting() -> None:
    machine = Machine(max_batch=4, limits=AdmissionLimits(max_waiting=0))
    for _ in range(4):
        machine.add(work())
    with pytest.raises(OverloadedError):
        machine.add(work())
    machine.add(work("another"))
    admitted = machine.scheduler.add(work(), is_later=True)
    assert admitted in machine.scheduler._requests


def test_a_batch_of_each_near_key_is_called() -> None:
    machine = Machine(max_batch=2)
    for number in range(40):
        machine.scheduler.add(work(number % 8))
    called = machine.scheduler.call()
    assert Counter(each.work.batch_key for each in called) == {key: 2 for key in range(4)}
    assert machine.scheduler.call() == []
    machine.scheduler.remove(called[0])
    assert [each.work.batch_key for each in machine.scheduler.call()] == [0]


@pytest.mark.parametrize("num_steps", [1, 2, 5, 50])
@pytest.mark.parametrize("num_previews", [0, 1, 3, 100])
def test_previews_lie_evenly_between_noise_and_result(num_previews: int, num_steps: int) -> None:
    steps = sorted(preview_steps(num_previews, num_steps))
    assert len(steps) == min(num_previews, num_steps - 1)
    assert all(0 < step < num_steps for step in steps)
    gaps = [after - before for before, after in zip([0, *steps], [*steps, num_steps], strict=True)]
    assert max(gaps) - min(gaps) <= 1
