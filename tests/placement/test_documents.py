"""Placement files: merged as documented, and every mistake told with its place."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import SettingsError
from antiphon.placement.documents import Document, parse, profiles, read_placement
from antiphon.placement.schema import PlacementFile, ReplicaRange

KEYS = st.sampled_from(["a", "b", "c"])
TREES = st.dictionaries(
    KEYS, st.recursive(st.integers(), lambda inner: st.dictionaries(KEYS, inner), max_leaves=6)
)


def said(file: PlacementFile) -> dict[str, Any]:
    return file.model_dump(exclude_unset=True)


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


@pytest.mark.parametrize("name", sorted(profiles()))
def test_every_shipped_profile_is_right_and_says_what_it_is(name: str) -> None:
    file = read_placement([name])
    assert file.fabric in ("local", "process", "ray")
    assert profiles()[name].read_text(encoding="utf-8").startswith("# ")


def test_later_files_win_entry_by_entry_and_single_entries_win_over_all(tmp_path: Path) -> None:
    below = written(
        tmp_path,
        "below.yaml",
        """
        fabric: process
        stages:
          talker: {devices: [cuda:0, cuda:1], max_batch: 32, labels: {zone: a, disk: ssd}}
          codec: {devices: cuda:2}
        """,
    )
    above = written(
        tmp_path, "above.yaml", "stages: {talker: {devices: cuda:3, labels: {zone: b}}}"
    )
    file = read_placement([below, above], ["stage.talker.max_batch=8", "front_ends=2"])
    talker = file.stages["talker"]
    assert talker.devices == ("cuda:3",), "lists are replaced"
    assert talker.labels == {"zone": "b", "disk": "ssd"}, "mappings are merged"
    assert talker.max_batch == 8
    assert file.stages["codec"].devices == ("cuda:2",)
    assert (file.fabric, file.front_ends) == ("process", 2)


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not isinstance(tree, dict):
        yield path, tree
        return
    for key, value in tree.items():
        yield from leaves(value, (*path, key))


@given(TREES, TREES)
def test_all_of_the_later_one_is_in_force_and_the_rest_is_of_the_earlier(
    below: dict[str, Any], above: dict[str, Any]
) -> None:
    merged = Document(below).under(Document(above)).values
    found, later = dict(leaves(merged)), dict(leaves(above))
    assert found.items() >= later.items()
    assert found.items() - later.items() <= dict(leaves(below)).items()
    assert Document(below).under(Document(below)).values == below


def test_a_file_extends_profiles_and_files_beside_it(tmp_path: Path) -> None:
    written(tmp_path, "base.yaml", "extends: one-gpu\nfront_ends: 3\n")
    file = read_placement([written(tmp_path, "own.yaml", "extends: [base.yaml]\nfront_ends: 5\n")])
    assert file.front_ends == 5
    assert file.defaults.devices == ("cuda:0",), "from the profile below"


def test_a_file_that_extends_itself_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="extends itself"):
        read_placement([written(tmp_path, "own.yaml", "extends: own.yaml")])


def test_a_placement_may_be_given_as_text_and_json_is_yaml() -> None:
    file = read_placement(["one-gpu", '{"stages": {"talker": {"replicas": 2}}}'])
    assert file.stages["talker"].replicas == ReplicaRange(min=2, max=2)
    assert read_placement([file.model_dump_json(exclude_unset=True)]) == file


def test_single_entries_quote_names_with_dots_and_take_yaml() -> None:
    entries = [
        'model."a-1.7b".stage.talker.devices=[cuda:0, cuda:1]',
        "stages.'voice encoder'.environment.OMP_NUM_THREADS=2",
        "stage.talker.replicas.max=4",
    ]
    file = read_placement([], entries)
    assert file.models["a-1.7b"].stages["talker"].devices == ("cuda:0", "cuda:1")
    assert file.stages["voice encoder"].environment == {"OMP_NUM_THREADS": "2"}
    assert file.stages["talker"].replicas == ReplicaRange(max=4)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("fabrik: ray", 1, r"fabrik: unknown entry. Did you mean 'fabric'"),
        ("fabric: roy", 1, "'local', 'process' or 'ray'"),
        ("stages:\n  talker:\n    replica: 2", 3, "Did you mean 'replicas'"),
        ("stages:\n  talker:\n    replicas: 0", 3, "greater than or equal to 1"),
        ("stages:\n  talker:\n    replicas: {min: 3, max: 2}", 3, "min, start and max must ascend"),
        ("stages:\n  talker:\n    replicas: {mx: 2}", 3, "Did you mean 'max'"),
        ("stages:\n  talker:\n    devices: [cuda:0, gpu1]", 3, "a device is cpu, cuda, cuda:N"),
        ("stages:\n  talker:\n    memory_fraction: 1.5", 3, "less than or equal to 1"),
        ("defaults:\n  dtype: float16", 2, "'auto', 'bfloat16' or 'float32'"),
        ("front_ends: many", 1, "valid integer"),
        ("models:\n  m:\n    stage: {}", 3, "Did you mean 'stages'"),
        ("front_ends: 1\nfront_ends: 2", 2, "'front_ends' is given twice"),
    ],
)
def test_a_mistake_is_told_with_its_file_its_line_and_what_is_allowed(
    text: str, line: int, told: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "p.yaml", text)
    with pytest.raises(SettingsError, match=told) as caught:
        read_placement([path])
    assert caught.value.message.startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(
    ("sources", "entries", "told"),
    [
        (["two-gpus"], [], "no profile or file 'two-gpus'. Profiles: all-gpus, cpu"),
        (["no/such.yaml"], [], "no file 'no/such.yaml'"),
        (["{a: ["], [], "while parsing"),
        ([], ["stage.talker"], "write it as"),
        ([], ["=2"], "write it as"),
        ([], ["stage..x=2"], "write it as"),
        ([], ["stage.talker.replicas=x"], "--set stage.talker.replicas=x: stages.talker.replicas"),
        ([], ["stage.talker.replicas=["], "--set .*while parsing"),
    ],
)
def test_what_cannot_be_read_is_told(sources: list[str], entries: list[str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        read_placement(sources, entries)


def test_a_file_that_is_no_mapping_and_an_empty_one(tmp_path: Path) -> None:
    assert said(read_placement([written(tmp_path, "empty.yaml", "# nothing\n")])) == {}
    with pytest.raises(SettingsError, match="mapping"):
        parse("[1, 2]", "list.yaml")


def test_no_object_is_made_of_yaml(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="could not determine a constructor"):
        read_placement(
            [written(tmp_path, "evil.yaml", "fabric: !!python/object/apply:os.abort []")]
        )
