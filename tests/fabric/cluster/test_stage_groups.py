"""Engines of a group in the controller's state: one number of replicas, and their bundles."""

from dataclasses import replace
from typing import Any

from antiphon.contracts.family import ItemKind, LoadContext
from antiphon.fabric.base import GroupStrategy, Placement, StageGroup
from antiphon.fabric.cluster.base import Hosting
from tests.fabric.cluster.cluster_world import SPEC, World

CONTEXT = LoadContext()
CODEC = replace(SPEC, name="codec", consumes=ItemKind.AUDIO)


def pair(strategy: GroupStrategy = "SPREAD", **placed: Any) -> tuple[Hosting, Hosting]:
    placement = Placement(**placed)
    engines = (((SPEC,), placement), ((CODEC,), placement))
    group = StageGroup(name="pair", strategy=strategy, engines=engines)
    one, two = (Hosting(specs, CONTEXT, replace(each, group=group)) for specs, each in engines)
    return one, two


def of_stage(world: World, hosting: Hosting) -> list[str]:
    return [name for name in world.processes if name.startswith(hosting.id)]


def hosted(*hostings: Hosting) -> World:
    world = World()
    for each in hostings:
        world.state.host("front", each, world.now_s)
        world.run(2, ["front"])
    return world


def test_a_group_has_one_id_and_its_engines_have_their_own() -> None:
    one, two = pair()
    assert one.group_id == two.group_id
    assert one.id != two.id
    assert one.group_id != pair(num_cpus=1)[0].group_id
    assert [member.specs for member in two.group_members()] == [(SPEC,), (CODEC,)]
    alone = Hosting((SPEC,), CONTEXT, Placement())
    assert alone.group_id is None
    assert alone.group_members() == (alone,)


def test_scaling_one_engine_of_a_group_scales_all() -> None:
    one, two = pair(num_replicas=2)
    alone = Hosting((SPEC,), CONTEXT, Placement())
    world = hosted(one, two, alone)
    for number in (3, 1):
        world.state.scale(two.id, number)
        world.run(5, ["front"])
        assert [len(of_stage(world, each)) for each in (one, two, alone)] == [number, number, 1]


def test_the_engine_with_the_highest_load_scales_its_group() -> None:
    one, two = pair(num_replicas=1, min_replicas=1, max_replicas=4)
    world = hosted(one, two)
    for name in of_stage(world, two):
        world.open[name] = 20
    world.run(5, ["front"])
    assert [len(of_stage(world, each)) for each in (one, two)] == [3, 3]


def test_bundles_are_those_of_the_replicas_until_these_are_stopped() -> None:
    one, two = pair(num_replicas=1)
    world = hosted(one, two)
    [first], [second] = of_stage(world, one), of_stage(world, two)
    world.state.plan(first, bundle="group#0")
    world.state.plan(second, bundle="group#0")
    assert world.state.bundles(one.id) == {"group#0"}
    assert world.state.bundles() == {"group#0"}
    world.state.release("front", one.id)
    world.tick()
    assert world.state.bundles(one.id) == frozenset()
    assert world.state.bundles() == {"group#0"}


def test_draining_replicas_do_not_count_for_the_load() -> None:
    what = Hosting((SPEC,), CONTEXT, Placement(num_replicas=2, max_replicas=4))
    world = hosted(what)
    world.open = dict.fromkeys(of_stage(world, what), 3)
    world.state.scale(what.id, 1)
    world.run(30, ["front"])
    assert len(of_stage(world, what)) == 2, "one drains, one serves within its target"
    [summary] = world.state.views()
    assert [replica.is_draining for replica in summary.replicas].count(True) == 1
