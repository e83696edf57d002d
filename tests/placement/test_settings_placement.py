"""The placement that settings name: frozen at the start, and held to the served models' stages."""

import json

import pytest

from antiphon.config.sources import load_settings
from antiphon.errors import SettingsError
from antiphon.families.registry import family
from antiphon.placement.documents import read_placement
from antiphon.placement.settings_placement import ServerPlacement, resolved, without_all

TOY = {"toy": family("toy")}


def of(text: str) -> ServerPlacement:
    return ServerPlacement(read_placement([text]), "process")


def test_the_placement_says_fabric_and_front_ends_unless_the_settings_do() -> None:
    flags = {"server.placement": ("cpu", "{fabric: process, front_ends: 3}")}
    server = resolved(load_settings(flags, environment={})).server
    assert (server.fabric, server.front_ends) == ("process", 3)
    flags = {**flags, "server.fabric": "local", "server.front_ends": 0}  # type: ignore[dict-item]
    server = resolved(load_settings(flags, environment={})).server
    assert (server.fabric, server.front_ends) == ("local", 0)


def test_resolved_settings_read_no_file_and_say_the_same() -> None:
    flags = {"server.placement": ("cpu",), "server.placement_set": ("stage.talker.max_batch=3",)}
    settings = load_settings(flags, environment={})
    once = resolved(settings)
    [text] = once.server.placement
    assert json.loads(text)["defaults"] == {"devices": ["cpu"]}
    assert ServerPlacement.of(once) == ServerPlacement.of(settings)
    assert resolved(once) == once
    assert resolved(load_settings({}, environment={})) == load_settings({}, environment={})


def test_one_caller_may_hold_all_that_the_models_serve() -> None:
    """A load balancer is one address."""
    flags = {"model.max_slots": 256, "server.placement": ("{defaults: {devices: [cpu, cpu]}}",)}
    limits = resolved(load_settings(flags, environment={})).limits
    assert limits.caller_places == 2 * 256 + 256
    assert limits.max_requests == limits.max_sockets == 2 * limits.caller_places
    alone = resolved(load_settings({"model.max_slots": 1700}, environment={})).limits
    assert (alone.caller_places, alone.max_requests) == (1956, 3912)
    given = resolved(load_settings({**flags, "limits.caller_places": 7}, environment={})).limits
    assert (given.caller_places, given.max_requests) == (7, 1536)


def test_all_becomes_the_gpus_of_this_host() -> None:
    file = read_placement(["all-gpus"])
    named = without_all(file, lambda: {"cuda:0": 1, "cuda:1": 1})
    assert named.stages["autoregressive"].devices == ("cuda:0", "cuda:1")
    assert named.front_ends == file.front_ends
    with pytest.raises(SettingsError, match="no GPU"):
        without_all(file, dict)
    plain = read_placement(["one-gpu"])
    assert without_all(plain, lambda: pytest.fail("nobody asked")) is plain


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{stages: {taker: {}}}", "stages: there is no stage 'taker'; known: talker, codec, text"),
        ("{models: {tony: {}}}", "models: there is no model 'tony'; known: toy"),
        ("{models: {toy: {stages: {x: {}}}}}", "models.toy.stages: there is no stage 'x'"),
    ],
)
def test_unknown_names_are_told_with_those_that_there_are(text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        of(text).check_names(TOY)


def test_kinds_of_stages_are_names_for_every_model() -> None:
    of("{stages: {decoder: {}, generator: {}}}").check_names(TOY)
    of("{stages: {voice: {}, talker: {}}}").check_names({**TOY, "hibari": family("hibari")})
