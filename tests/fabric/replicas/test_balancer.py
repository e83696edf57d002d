"""The balancer's choices: by slack, by affinity, past the failed; and what it knows of requests."""

from collections import Counter
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.prompt import Prompt
from antiphon.fabric.replicas.balancer import Balancer, QuarantineLimits, affinity_key, summed
from antiphon.telemetry.stage_status import EngineStats, StageStatus

STATUSES = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(StageStatus, num_open=st.integers(0, 40), capacity=st.integers(1, 32)),
    min_size=1,
)


class Now:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@given(STATUSES, st.integers(0, 99))
def test_the_fullest_of_several_replicas_is_never_chosen(
    statuses: dict[str, StageStatus], seed: int
) -> None:
    chosen = Balancer(random=Random(seed)).choose(statuses)
    assert chosen is not None
    others = [each.capacity - each.num_open for id, each in statuses.items() if id != chosen]
    assert not others or statuses[chosen].capacity - statuses[chosen].num_open >= min(others)


@given(st.integers(2, 6), st.integers(1, 60))
def test_requests_are_counted_before_any_status_knows_of_them(
    num_replicas: int, num_requests: int
) -> None:
    statuses = {f"r{number}": StageStatus(capacity=100) for number in range(num_replicas)}
    balancer, given_to = Balancer(random=Random(1)), Counter[str]()
    for _ in range(num_requests):
        chosen = balancer.choose(statuses)
        assert chosen is not None
        balancer.begin(chosen)
        given_to[chosen] += 1
        assert balancer.slack(chosen) == 100 - given_to[chosen]
    assert max(given_to.values()) <= num_requests / num_replicas + num_replicas + 4
    for replica, number in given_to.items():
        for _ in range(number):
            balancer.end(replica)
        assert balancer.slack(replica) == 100


def test_a_status_that_counts_our_requests_does_not_count_them_twice() -> None:
    balancer = Balancer()
    balancer.begin("a")
    balancer.choose({"a": StageStatus(num_open=3, capacity=10)})  # two of others
    assert balancer.slack("a") == 7
    balancer.begin("a")
    assert balancer.slack("a") == 6
    balancer.end("a")
    balancer.end("a")
    assert balancer.slack("a") == 8


@given(STATUSES, st.binary(min_size=1, max_size=16), st.integers(0, 9))
def test_a_key_has_the_same_owner_for_all_while_it_has_slack(
    statuses: dict[str, StageStatus], key: bytes, seed: int
) -> None:
    roomy = {id: StageStatus(capacity=4) for id in statuses}
    owner = Balancer(random=Random(seed)).choose(roomy, key)
    assert owner == Balancer(random=Random(seed + 1)).choose(roomy, key)
    for other in roomy.keys() - {owner}:  # keys of others than it stay where they are
        rest = {id: each for id, each in roomy.items() if id != other}
        assert Balancer().choose(rest, key) == owner
    if owner is not None and len(roomy) > 1:
        full = {**roomy, owner: StageStatus(num_open=4, capacity=4)}
        assert Balancer().choose(full, key) != owner


def test_what_has_failed_is_left_out_for_twice_as_long_each_time() -> None:
    now = Now()
    limits = QuarantineLimits(first_s=1.0, longest_s=5.0)
    balancer = Balancer(limits=limits, clock=now)
    statuses = {"a": StageStatus(capacity=9), "b": StageStatus(capacity=1)}
    for pause_s in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert balancer.fail("a") == pause_s
        assert balancer.fail("a") == pause_s, "many streams notice one failure"
        assert balancer.choose(statuses) == "b"
        assert balancer.choose({"a": statuses["a"]}) is None
        assert balancer.wait_s(["a"]) == pause_s
        now.s += pause_s
        assert balancer.choose({"a": statuses["a"]}) == "a"
    balancer.succeed("a")
    assert balancer.fail("a") == 1.0
    balancer.forget("a")
    assert balancer.choose({"a": statuses["a"]}) == "a"


def test_broken_replicas_are_left_out() -> None:
    statuses = {"a": StageStatus(capacity=9, failure="broken"), "b": StageStatus(9, 1)}
    assert {Balancer(random=Random(seed)).choose(statuses) for seed in range(9)} == {"b"}


@given(STATUSES)
def test_a_stage_works_while_one_of_its_replicas_does(statuses: dict[str, StageStatus]) -> None:
    broken = StageStatus(num_open=2, capacity=5, failure="broken", step_began_s=1.0)
    working = [*statuses.values()]
    merged = summed([broken, *working])
    assert merged.failure is None
    assert merged.step_began_s is None
    assert merged.capacity == sum(each.capacity for each in working)
    assert merged.num_open == 2 + sum(each.num_open for each in working)
    assert summed([broken]).failure == "broken"
    assert merged.num_replicas == len(working)
    assert summed([]) == StageStatus(num_replicas=0), "not ready, but nothing to be restarted for"


def test_statistics_of_one_replica_are_not_copied() -> None:
    one, other = (StageStatus(stats=EngineStats(frames=number)) for number in (1, 2))
    assert summed([one]).stats is one.stats
    assert summed([StageStatus(), one]).stats is one.stats
    both = summed([one, other]).stats
    assert both is not None
    assert both.frames == 3


def test_voices_that_are_alike_have_the_same_key() -> None:
    frames = np.arange(12).reshape(6, 2)
    one, same, other, none = (
        Prompt(data=None, num_tokens=1, seed=seed, context_frames=each)
        for seed, each in enumerate((frames, frames.copy(), frames[:5], None))
    )
    assert affinity_key(one) == affinity_key(same) != affinity_key(other)
    assert affinity_key(none) is None
