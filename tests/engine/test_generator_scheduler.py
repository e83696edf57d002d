"""Generators by the playback clock, in virtual time: gapless for admitted streams, fair to all."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.engine.generator_scheduler import GeneratorScheduler
from antiphon.errors import OverloadedError
from tests.clock import Clock
from tests.engine.generator_traffic import Cost, Traffic

# A first sentence lasts for longer than the next one takes: no order could mend that.
TEXTS = st.lists(st.floats(0.8, 6.0), min_size=1, max_size=3)
QUICK = Cost(sentence_s=0.006, chunk_s=0.003)


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


def one_thread(clock: Clock, **limits: float) -> GeneratorScheduler:
    return GeneratorScheduler(1, 64, AdmissionLimits(**limits), clock=clock)  # type: ignore[arg-type]


def spoken(scheduler: GeneratorScheduler, clock: Clock, audio_s: float, run_s: float = 0.1) -> str:
    """Run the next request for a chunk, ask for another, and return its stream."""
    request = scheduler.schedule()
    assert request is not None
    clock.now_s += run_s
    scheduler.update(request, audio_s)
    scheduler.want(request)
    return request.stream_id


def test_the_earliest_deadline_goes_first(clock: Clock) -> None:
    scheduler = one_thread(clock)
    for name in ("a", "b", "c"):
        scheduler.want(scheduler.add(name, 1))
    for audio_s in (9.0, 3.0, 6.0):
        spoken(scheduler, clock, audio_s)
    assert [spoken(scheduler, clock, 10.0) for _ in range(3)] == ["b", "c", "a"]


def test_a_first_chunk_waits_only_for_streams_in_danger(clock: Clock) -> None:
    scheduler = one_thread(clock)
    scheduler.want(scheduler.add("early", 1))
    assert spoken(scheduler, clock, 0.2) == "early"
    scheduler.want(scheduler.add("late", 1))
    assert spoken(scheduler, clock, 30.0) == "early", "its listener would hear nothing soon"
    assert spoken(scheduler, clock, 0.2) == "late"
    assert spoken(scheduler, clock, 30.0) == "late"


def test_audio_that_is_played_quickly_does_not_last(clock: Clock) -> None:
    scheduler = one_thread(clock)
    scheduler.want(scheduler.add("slow", 1))
    scheduler.want(scheduler.add("quick", 1, speed=4.0))
    assert spoken(scheduler, clock, 8.0) == "slow"
    assert spoken(scheduler, clock, 8.0) == "quick"
    assert spoken(scheduler, clock, 8.0) == "quick"


def test_offline_requests_wait_for_streams_but_not_for_ever(clock: Clock) -> None:
    scheduler = one_thread(clock)
    scheduler.want(scheduler.add("file", 1, is_live=False))
    scheduler.want(scheduler.add("talk", 1))
    names = [spoken(scheduler, clock, 0.2, run_s=0.19) for _ in range(80)]
    assert names[:20] == ["talk"] * 20
    assert 2 <= names.count("file") <= 4, "once in five seconds, where listeners leave no time"


def test_no_stream_has_a_gap_for_a_late_offline_request(
    clock: Clock,
) -> None:
    scheduler = one_thread(clock)
    scheduler.want(scheduler.add("talk", 1))
    assert spoken(scheduler, clock, 0.09) == "talk"
    scheduler.want(scheduler.add("file", 1, is_live=False))
    began_s = clock.now_s
    while spoken(scheduler, clock, 0.09) == "talk":
        pass  # whose slack is less than a run takes
    assert 10.0 < clock.now_s - began_s < 10.5
    assert spoken(scheduler, clock, 0.09) == "talk"


def test_offline_requests_get_the_time_that_streams_leave(clock: Clock) -> None:
    scheduler = one_thread(clock)
    scheduler.want(scheduler.add("file", 1, is_live=False))
    scheduler.want(scheduler.add("talk", 1))
    spoken(scheduler, clock, 60.0)
    assert [spoken(scheduler, clock, 1.0) for _ in range(20)] == ["file"] * 20


def test_offline_requests_run_in_order_of_arrival(clock: Clock) -> None:
    scheduler = one_thread(clock)
    for name in ("first", "second"):
        scheduler.want(scheduler.add(name, 1, is_live=False))
    assert [spoken(scheduler, clock, 1.0) for _ in range(3)] == ["first"] * 3


@pytest.mark.parametrize(("is_anybody_there", "num_running"), [(False, 4), (True, 3)])
def test_offline_requests_leave_a_thread_to_streams(
    clock: Clock, is_anybody_there: bool, num_running: int
) -> None:
    scheduler = GeneratorScheduler(4, 64, clock=clock)
    if is_anybody_there:
        scheduler.add("idle", 1)  # no chunk of it is wanted
    for number in range(9):
        scheduler.want(scheduler.add(f"file {number}", 1, is_live=False))
    running = [scheduler.schedule() for _ in range(9)]
    assert sum(each is not None for each in running) == num_running


def test_a_chunk_that_is_not_wanted_is_not_made(clock: Clock) -> None:
    scheduler = one_thread(clock)
    request = scheduler.add("a", 1)
    scheduler.want(request)
    assert scheduler.schedule() is request
    scheduler.update(request, 1.0)
    clock.now_s += 1000
    assert scheduler.schedule() is None


def test_a_later_part_is_never_refused_and_comes_after_what_is_before_it(clock: Clock) -> None:
    limits = AdmissionLimits(max_waiting=0, max_wait_s=0.0)
    scheduler = GeneratorScheduler(1, 1, limits, clock=clock)
    first = scheduler.add("talk", 16)
    with pytest.raises(OverloadedError):
        scheduler.add("other", 16)
    scheduler.want(first)
    spoken(scheduler, clock, 2.0)
    later = scheduler.add("talk", 16, is_later=True)
    scheduler.want(later)
    assert scheduler.schedule() is first
    scheduler.remove(first)
    assert scheduler.schedule() is later, "there is room for it as long as its listener is here"
    scheduler.update(later, 1.0)
    scheduler.remove(later)
    alone = scheduler.add("talk", 16, is_later=True)  # the part before it has ended
    scheduler.want(alone)
    assert scheduler.schedule() is alone


def test_a_removed_request_leaves_nothing_behind(clock: Clock) -> None:
    limits = AdmissionLimits(max_waiting=0, max_waiting_offline=1)
    scheduler = GeneratorScheduler(1, 1, limits, clock=clock)
    for is_live in (True, False):
        for has_asked, has_turn in ((False, False), (True, False), (True, True)):
            request = scheduler.add("a", 1, is_live=is_live)  # there is room for one only
            if has_asked:
                scheduler.want(request)
            if has_turn:
                assert scheduler.schedule() is request
            scheduler.remove(request)
            assert scheduler.num_open == 0
            assert scheduler.schedule() is None
            if has_turn:
                scheduler.update(request, 1.0)


def test_a_stream_that_is_admitted_early_has_the_room_of_one(clock: Clock) -> None:
    scheduler = GeneratorScheduler(1, 1, AdmissionLimits(max_waiting=0), clock=clock)
    scheduler.reserve("a")
    with pytest.raises(OverloadedError):
        scheduler.add("b", 1)
    assert scheduler.schedule() is None
    assert scheduler.num_open == 0
    request = scheduler.add("a", 1, is_later=True)
    scheduler.release("a")  # its request has the room
    scheduler.want(request)
    assert spoken(scheduler, clock, 1.0) == "a"
    scheduler.remove(request)
    scheduler.reserve("c")
    scheduler.release("c")
    scheduler.add("b", 1)


@pytest.mark.parametrize("max_streams", [1, 5])
def test_before_the_pace_is_known_only_the_line_is_bounded(clock: Clock, max_streams: int) -> None:
    scheduler = GeneratorScheduler(2, max_streams, AdmissionLimits(max_waiting=3), clock=clock)
    for number in range(max_streams):
        scheduler.want(scheduler.add(f"{number}", 1))
        assert scheduler.schedule() is not None
    for number in range(3):
        scheduler.want(scheduler.add(f"waits {number}", 1))
        assert scheduler.schedule() is None
    with pytest.raises(OverloadedError):
        scheduler.add("one too many", 1)


def test_an_idle_machine_admits_any_request_however_slow_it_is() -> None:
    traffic = Traffic(cost=Cost(sentence_s=3.0, chunk_s=3.0))
    traffic.learn()
    assert traffic.scheduler.costs.throughput < 1
    assert traffic.try_to_come("a", [2.0]) is None
    refused = [traffic.try_to_come(name, [2.0]) is not None for name in "bcdefgh"]
    assert refused == sorted(refused)
    assert not refused[0], "with one stream at a time, the next waits for its end"
    assert refused[-1]


def test_as_many_are_let_in_as_the_machine_can_keep_pace_with() -> None:
    traffic = Traffic(limits=AdmissionLimits(max_waiting=0, max_wait_s=100.0, max_load=0.5))
    traffic.learn()
    speed = traffic.scheduler.costs.throughput
    assert speed == pytest.approx(2 / 0.08, rel=0.05)
    let_in = [traffic.try_to_come(f"{n}", [60.0]) is None for n in range(100)]
    assert sum(let_in) == int(speed * 0.5)
    fast = Traffic(limits=AdmissionLimits(max_waiting=0, max_wait_s=100.0, max_load=0.5))
    fast.learn()
    let_in = [fast.try_to_come(f"{n}", [60.0], speed=2.0) is None for n in range(100)]
    assert sum(let_in) == int(speed * 0.25), "what is played twice as fast counts twice"


@settings(deadline=None, max_examples=40)
@given(st.lists(TEXTS, min_size=1, max_size=120), st.sampled_from([Cost(), QUICK]))
def test_of_a_burst_all_that_are_let_in_play_without_halts(
    texts: list[list[float]], cost: Cost
) -> None:
    traffic = Traffic(cost=cost)
    traffic.learn()
    refused = [traffic.try_to_come(f"{n}", text) for n, text in enumerate(texts)]
    traffic.go()
    assert traffic.scheduler.num_open == 0
    assert refused[0] is None
    for retry_after_s in refused:
        assert retry_after_s is None or 1.0 <= retry_after_s < 60.0
    for heard in traffic.heard.values():
        assert heard.is_over
        assert heard.halts_s == pytest.approx(0.0, abs=1e-6)
        assert heard.first_s < 2 * AdmissionLimits().max_wait_s


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.floats(0.3, 4.0))
def test_under_any_load_all_that_are_let_in_play_without_halts(seed: int, load: float) -> None:
    draws = random.Random(seed)
    traffic = Traffic()
    traffic.learn()
    gap_s = 3.0 / traffic.scheduler.costs.throughput / load
    for number in range(150):
        is_live = draws.random() < 0.7
        text = [draws.uniform(0.8, 6.0) for _ in range(draws.randint(1, 2))]
        traffic.go(traffic.now_s + draws.expovariate(1 / gap_s))
        traffic.try_to_come(f"{number} {'live' if is_live else 'offline'}", text, is_live=is_live)
    traffic.go()
    assert traffic.scheduler.num_open == 0
    for name, heard in traffic.heard.items():
        assert heard.is_over, "a request starves"
        if name.endswith("live"):
            assert heard.halts_s == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("cost", [Cost(), QUICK, Cost(sentence_s=0.2, chunk_s=0.3)])
@pytest.mark.parametrize("text", [[2.5], [1.0, 6.0]])
def test_a_long_queue_is_predicted_as_it_turns_out(cost: Cost, text: list[float]) -> None:
    traffic = Traffic(limits=AdmissionLimits(max_waiting=400, max_wait_s=3600.0), cost=cost)
    traffic.learn()
    predicted_s = []
    for number in range(400):
        predicted_s.append(traffic.scheduler.wait_s())
        assert traffic.try_to_come(f"{number}", text) is None, "all may wait for an hour"
    traffic.go()
    for number in (100, 200, 399):
        assert traffic.heard[f"{number}"].first_s == pytest.approx(predicted_s[number], rel=0.1)


@given(st.integers(1, 200))
@settings(deadline=None, max_examples=20)
def test_a_retry_at_the_given_time_is_admitted(num_before: int) -> None:
    traffic = Traffic(cost=QUICK, max_streams=8)
    traffic.learn()
    for number in range(num_before):
        traffic.try_to_come(f"{number}", [4.0])
    retry_after_s = traffic.try_to_come("again", [4.0])
    if retry_after_s is not None:
        traffic.go(traffic.now_s + retry_after_s)
        assert traffic.try_to_come("again", [4.0]) is None


def test_removed_requests_free_capacity() -> None:
    draws = random.Random(1)
    traffic = Traffic(cost=QUICK)
    traffic.learn()
    for number in range(300):
        text = [draws.uniform(1.0, 9.0)]
        request = traffic.come(f"{number}", text, is_live=number % 3 > 0)
        traffic.go(traffic.now_s + draws.uniform(0.0, 0.2))
        traffic.leave(f"{number}", request)
        assert traffic.scheduler.num_open == 0
    traffic.go()
    assert traffic.num_busy == 0
    assert traffic.scheduler.schedule() is None
