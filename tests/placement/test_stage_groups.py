"""Groups of stages in a placement: who shares a bundle, and what is refused."""

import pytest

from antiphon.config import ModelSettings
from antiphon.errors import SettingsError
from antiphon.families.registry import family
from antiphon.placement.documents import read_placement
from antiphon.placement.model_placement import ModelPlacement
from antiphon.placement.settings_placement import ServerPlacement
from antiphon.stages.build import engine_groups

FAMILY = family("toy")
PIPELINE = FAMILY.tasks["speech"].pipeline
APART = "stages: {codec: {apart: true}}"


def placements(text: str, fabric: str = "ray", *entries: str) -> list[tuple[str, ...] | None]:
    """Return of each engine its group: name, strategy and names of the stages."""
    file = read_placement([text], entries)
    placed = ModelPlacement(file, "toy", ModelSettings(source="toy"), fabric)
    engines = engine_groups(PIPELINE, is_colocated=placed.is_colocated(PIPELINE))
    found = []
    for placement in placed.placements(engines):
        group = placement.group
        stages = [spec.name for specs, _ in group.engines for spec in specs] if group else []
        found.append((group.name, group.strategy, *stages) if group else None)
    return found


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{}", [None]),
        (
            f"{{{APART}, groups: {{pair: {{stages: [talker, codec], strategy: STRICT_SPREAD}}}}}}",
            [("toy.pair", "STRICT_SPREAD", "talker", "codec")] * 2,
        ),
        (
            f"{{{APART}, groups: {{pair: {{stages: [autoregressive, decoder]}}}}}}",
            [("toy.pair", "SPREAD", "talker", "codec")] * 2,
        ),
        (
            f"{{{APART}, groups: {{one: {{stages: codec, strategy: PACK}}}}}}",
            [None, ("toy.one", "PACK", "codec")],
        ),
        ("{groups: {one: {stages: codec}}}", [("toy.one", "SPREAD", "talker", "codec")]),
        ("{models: {other: {groups: {one: {stages: codec}}}}}", [None]),
        (
            "{groups: {g: {stages: codec}}, models: {toy: {groups: {g: {stages: talker,"
            " strategy: PACK}}}}}",
            [("toy.g", "PACK", "talker", "codec")],
        ),
    ],
)
def test_engines_of_a_group_have_the_same_group(
    text: str, groups: list[tuple[str, ...] | None]
) -> None:
    assert placements(text) == groups


def test_an_entry_sets_a_strategy() -> None:
    text = "{groups: {g: {stages: codec}}}"
    [group] = placements(text, "ray", "group.g.strategy=STRICT_SPREAD")
    assert group is not None
    assert group[1] == "STRICT_SPREAD"


@pytest.mark.parametrize(
    ("text", "fabric", "error"),
    [
        ("{groups: {g: {stages: codec}}}", "process", "groups.g: groups need the fabric 'ray'"),
        ("{groups: {g: {stages: codec}}}", "local", "groups.g: groups need the fabric 'ray'"),
        (
            "{stages: {talker: {replicas: 2}, codec: {replicas: {min: 1, max: 2}}},"
            " groups: {g: {stages: [talker, codec]}}}",
            "ray",
            "groups.g: Invalid 'replicas' of 'codec': 1 to 2, 1 at the start. Must equal those of"
            " 'talker' .2 to 2, 2 at",
        ),
        (
            "{stages: {codec: {labels: {gpu: small}}}, groups: {g: {stages: [talker, codec]}}}",
            "ray",
            "groups.g: Invalid 'labels' of 'codec': {'gpu': 'small'}",
        ),
        (
            f"{{{APART}, groups: {{a: {{stages: codec}}, b: {{stages: [talker, codec]}}}}}}",
            "ray",
            "groups.b: 'codec' is in the group 'toy.a' already",
        ),
        ("{groups: {g: {stages: []}}}", "ray", "groups.g.stages"),
        ("{groups: {g: {stages: codec, strategy: EVEN}}}", "ray", "'PACK', 'SPREAD' or 'STRICT_"),
        ("{groups: {g: {stages: codec, spread: 1}}}", "ray", "Allowed: stages, strategy"),
        (
            "{models: {toy: {groups: {g: {stages: codec, spread: 1}}}}}",
            "ray",
            "Allowed: stages, strategy",
        ),
    ],
)
def test_wrong_groups_are_refused(text: str, fabric: str, error: str) -> None:
    with pytest.raises(SettingsError, match=error):
        placements(text, fabric)


@pytest.mark.parametrize(
    "text",
    ["{groups: {g: {stages: vocoder}}}", "{models: {toy: {groups: {g: {stages: vocoder}}}}}"],
)
def test_unknown_stages_of_a_group_are_named(text: str) -> None:
    server = ServerPlacement(read_placement([text]), "ray")
    with pytest.raises(SettingsError, match="no stage 'vocoder'; known: talker"):
        server.check_names({"toy": FAMILY})
