"""The controller's state machine: leases, losses, drains and restarts, without processes."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from antiphon.errors import InvalidRequestError
from antiphon.fabric.cluster.base import Heartbeat
from tests.fabric.cluster.cluster_world import LIMITS, World, hosting, serving, started


def test_equal_hostings_are_hosted_once_and_until_the_last_front_end_has_left() -> None:
    world, stage_id = started(2)
    assert world.state.host("other", hosting(num_replicas=2), world.now_s) == stage_id
    world.run(3, ["front", "other"])
    assert len(world.processes) == 2
    world.state.release("front", stage_id)
    world.run(1, ["other"])
    assert len(serving(world, stage_id)) == 2
    world.state.release("other", stage_id)
    world.tick()
    assert world.state.view(stage_id) is None
    assert not world.processes


def test_a_dead_front_end_does_not_count() -> None:
    world, stage_id = started(1)
    world.run(int(LIMITS.lease_s) - 1)
    assert serving(world, stage_id)
    world.run(3)
    assert world.state.view(stage_id) is None
    assert world.state.renew("front", world.now_s) == frozenset(), "it must host again"


@pytest.mark.parametrize("leaves", [True, False])
def test_a_front_end_is_reported_dead_unless_it_has_left(
    leaves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world, stage_id = started(1)
    if leaves:
        world.state.release("front", stage_id)
    world.run(int(LIMITS.lease_s) + 2)
    assert ("lease dropped" in caplog.text) is not leaves


def test_a_restarted_replica_has_a_new_id_and_the_old_one_is_gone() -> None:
    world, stage_id = started(2)
    before = serving(world, stage_id)
    world.kill(next(iter(world.processes)))
    world.run(1, ["front"])
    after = serving(world, stage_id)
    assert len(after) == 2
    assert len({*before, *after}) == 3


def test_a_reported_replica_is_left_out_until_it_has_shown_that_it_lives() -> None:
    world, stage_id = started(2)
    first, *_ = serving(world, stage_id)
    world.state.report(stage_id, first)
    assert first not in serving(world, stage_id)
    world.run(1, ["front"])
    assert first not in serving(world, stage_id), "that beat may have been sent before"
    world.run(1, ["front"])
    assert first in serving(world, stage_id)
    world.state.report(stage_id, "nobody")
    world.state.report("nothing", first)


def test_a_silent_replica_is_left_out_and_then_restarted() -> None:
    world, stage_id = started(2)
    [name, _] = world.processes
    world.silent.add(name)
    world.run(int(LIMITS.dead_after_s) + 2, ["front"])
    assert len(serving(world, stage_id)) == 1
    world.run(int(LIMITS.restart_after_s - LIMITS.dead_after_s), ["front"])
    assert [each.name for each in world.done if each.kind == "restart"] == [name]
    world.silent.clear()
    world.run(1, ["front"])
    assert len(serving(world, stage_id)) == 2


def test_what_was_silent_only_while_the_controller_was_stalled_is_not_blamed() -> None:
    world, stage_id = started(2)
    world.now_s += 1000.0
    world.tick()
    assert len(serving(world, stage_id)) == 2
    assert world.state.renew("front", world.now_s) == {stage_id}


def test_scaling_down_drains_those_with_the_fewest_streams_and_waits_for_them() -> None:
    world, stage_id = started(3)
    busy, middle, idle = world.processes
    world.open = {busy: 5, middle: 2, idle: 0}
    world.run(1, ["front"])
    world.state.scale(stage_id, 1)
    world.tick()
    view = world.state.view(stage_id)
    assert view is not None
    assert [each.is_draining for each in view.replicas] == [False, True, True]
    world.run(3, ["front"])
    assert set(world.processes) == {busy, middle}
    world.run(60, ["front"])
    assert set(world.processes) == {busy, middle}, "two streams still play"
    world.open[middle] = 0
    world.run(3, ["front"])
    assert set(world.processes) == {busy}


def test_streams_that_do_not_end_are_not_waited_for_for_ever() -> None:
    world, stage_id = started(2)
    world.open = dict.fromkeys(world.processes, 1)
    world.run(1, ["front"])
    world.state.scale(stage_id, 1)
    world.run(int(LIMITS.drain_s) + 3, ["front"])
    assert len(world.processes) == 1


def test_scaling_up_takes_back_what_is_being_drained() -> None:
    world, stage_id = started(2)
    names = set(world.processes)
    world.open = dict.fromkeys(names, 1)
    world.run(1, ["front"])
    world.state.scale(stage_id, 1)
    world.run(2, ["front"])
    world.state.scale(stage_id, 3)
    world.run(2, ["front"])
    assert len(serving(world, stage_id)) == 3
    assert names < set(world.processes)


def test_numbers_that_are_not_allowed_are_refused() -> None:
    world, stage_id = started(2)
    with pytest.raises(InvalidRequestError, match="at least 1"):
        world.state.scale(stage_id, 0)
    with pytest.raises(InvalidRequestError, match="no stage 'other'"):
        world.state.scale("other", 2)
    world, stage_id = started(2, min_replicas=2, max_replicas=4)
    with pytest.raises(InvalidRequestError, match="allows 2 to 4"):
        world.state.scale(stage_id, 5)


def test_with_bounds_the_number_follows_the_load() -> None:
    world, stage_id = started(1, max_replicas=4)
    world.open = dict.fromkeys(world.processes, 20)
    world.run(5, ["front"])
    assert len(serving(world, stage_id)) == 3
    world.open = {}
    world.run(300, ["front"])
    assert len(serving(world, stage_id)) == 1


def test_what_cannot_be_loaded_at_all_fails_those_who_wait_and_can_be_tried_again() -> None:
    world = World()
    stage_id = world.state.host("front", hosting(), world.now_s)
    world.tick()
    [name] = world.processes
    world.failing[name] = "no such checkpoint"
    world.run(1, ["front"])
    view = world.state.view(stage_id)
    assert view is not None
    assert view.failure == "no such checkpoint"
    world.state.release("front", stage_id)
    world.state.host("front", hosting(), world.now_s)
    view = world.state.view(stage_id)
    assert view is not None
    assert view.failure is None
    world.failing.clear()
    world.run(5, ["front"])
    assert len(serving(world, stage_id)) == 1


def test_a_replica_that_fails_to_load_later_is_tried_again_ever_less_often() -> None:
    world, stage_id = started(2)
    [name, _] = world.processes
    world.failing[name] = "out of memory"
    world.kill(name)
    world.run(600, ["front"])
    view = world.state.view(stage_id)
    assert view is not None
    assert view.failure is None
    assert len(view.replicas) == 1
    attempts = [each for each in world.done if each.kind == "restart"]
    assert 5 <= len(attempts) <= 30
    world.failing.clear()
    world.run(60, ["front"])
    assert len(serving(world, stage_id)) == 2


def test_a_process_that_dies_again_and_again_while_loading_fails_the_stage() -> None:
    world = World()
    what = hosting()
    stage_id = world.state.host("front", what, world.now_s)
    world.tick()
    [name] = world.processes
    for number in range(LIMITS.max_crashes + 1):
        world.state.beat(
            Heartbeat(name=name, hosting=what, process=f"crash-{number}", num_wanted=1), world.now_s
        )
    view = world.state.view(stage_id)
    assert view is not None
    assert "ended 3 times" in str(view.failure)


def test_a_restarted_controller_learns_everything_from_beats_and_leases() -> None:
    world, stage_id = started(3)
    world.state.scale(stage_id, 2)
    world.run(5, ["front"])
    names = set(world.processes)
    assert len(names) == 2
    world.state = world.new_state(is_restarted=True)
    assert world.state.renew("front", world.now_s) == frozenset()
    world.state.host("front", hosting(num_replicas=3), world.now_s)
    world.tick()
    world.run(20, ["front"])
    assert set(world.processes) == names, "none was stopped, and the number is what it was"
    assert len(serving(world, stage_id)) == 2


def test_a_beat_that_arrives_after_its_replica_was_stopped_changes_nothing() -> None:
    world, stage_id = started(1)
    [name] = world.processes
    late = Heartbeat(name=name, hosting=world.hostings[name], process="late", num_wanted=1)
    world.state.release("front", stage_id)
    world.tick()
    world.state.beat(late, world.now_s)
    world.tick()
    assert world.state.view(stage_id) is None
    assert not world.state.names


def test_versions_grow_with_every_change_and_only_then() -> None:
    world, stage_id = started(2)
    before = world.state.view(stage_id)
    world.run(5, ["front"])
    assert world.state.view(stage_id) == before
    world.kill(next(iter(world.processes)))
    world.run(1, ["front"])
    after = world.state.view(stage_id)
    assert before is not None
    assert after is not None
    assert after.version > before.version


def test_the_id_of_a_hosting_does_not_depend_on_objects() -> None:
    one, other = hosting(num_replicas=2), hosting(num_replicas=2)
    reporting = replace(one, context=replace(one.context, progress=print))
    assert one.id == other.id == reporting.id
    assert one.id != hosting(num_replicas=3).id
    assert one.id.startswith("stage-")


class AnyLife(RuleBasedStateMachine):
    """Whatever happens, once it stops happening there are as many replicas as wanted."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.stage_id = self.world.state.host("front", hosting(num_replicas=2), 0.0)
        self.world.tick()
        self.num_wanted = 2

    @rule(seconds=st.integers(1, 20))
    def wait(self, seconds: int) -> None:
        self.world.run(seconds, ["front"])

    @rule(number=st.integers(0, 9))
    def kill(self, number: int) -> None:
        if names := sorted(self.world.processes):
            self.world.kill(names[number % len(names)])

    @rule(number=st.integers(0, 9))
    def hang(self, number: int) -> None:
        if names := sorted(self.world.processes):
            self.world.silent.add(names[number % len(names)])

    @rule(number=st.integers(0, 9), num_open=st.integers(0, 3))
    def load(self, number: int, num_open: int) -> None:
        if names := sorted(self.world.processes):
            self.world.open[names[number % len(names)]] = num_open

    @rule(number=st.integers(0, 9))
    def report(self, number: int) -> None:
        if ids := serving(self.world, self.stage_id):
            self.world.state.report(self.stage_id, ids[number % len(ids)])

    @rule(num_replicas=st.integers(1, 5))
    def scale(self, num_replicas: int) -> None:
        self.world.state.scale(self.stage_id, num_replicas)
        self.num_wanted = num_replicas

    @invariant()
    def ids_are_unique_and_the_view_is_not_ahead_of_the_processes(self) -> None:
        ids = serving(self.world, self.stage_id)
        assert len(ids) == len(set(ids))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.silent.clear()
            self.world.open.clear()
            self.world.run(60, ["front"])
            assert len(serving(self.world, self.stage_id)) == self.num_wanted
            assert len(self.world.processes) == self.num_wanted


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
