"""What is told of a placement before anything is loaded."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from antiphon.config import ModelSettings
from antiphon.contracts.family import LoadContext
from antiphon.families.registry import family
from antiphon.placement.check import EngineRow, engine_row, notes, problems
from antiphon.placement.documents import read_placement
from antiphon.placement.model_placement import ModelPlacement
from antiphon.stages.build import engine_groups

PIPELINE = family("toy").tasks["speech"].pipeline
KINDS = {spec.name: spec.kind for spec in PIPELINE}
TWO_GPUS = {"cuda:0": 80 * 2**30, "cuda:1": 80 * 2**30}


def rows_of(text: str, fabric: str = "process") -> list[EngineRow]:
    placed = ModelPlacement(read_placement([text]), "toy", ModelSettings(source="toy"), fabric)
    groups = engine_groups(PIPELINE, is_colocated=placed.is_colocated(PIPELINE))
    return [
        engine_row(placed, specs, placement, LoadContext(device="cpu"))
        for specs, placement in zip(groups, placed.placements(groups), strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "gpus", "told"),
    [
        ("{}", {}, []),
        ("{defaults: {devices: cpu, replicas: 8}}", {}, []),
        ("{defaults: {devices: [cuda:0, cuda:1]}}", TWO_GPUS, []),
        ("{defaults: {devices: cuda:2}}", TWO_GPUS, ["no device cuda:2; this host has cuda:0"]),
        ("{defaults: {devices: cuda:0}}", {}, ["no GPU that PyTorch sees"]),
        ("{defaults: {devices: cuda:0, replicas: 2}}", TWO_GPUS, ["2 replicas on cuda:0"]),
        ("{defaults: {devices: cuda:0, replicas: {max: 2}}}", TWO_GPUS, ["2 replicas on cuda:0"]),
        ("{defaults: {devices: cuda:0, replicas: 2, memory_fraction: 0.5}}", TWO_GPUS, []),
        ("{defaults: {devices: [cuda:0, cuda:1], replicas: 3}}", TWO_GPUS, ["2 replicas on"]),
        ("{defaults: {devices: [cuda:0, cuda:0]}}", TWO_GPUS, ["2 replicas on cuda:0"]),
        ("{defaults: {devices: [cuda, cuda:0]}}", TWO_GPUS, ["2 replicas on cuda:0"]),
        ("{defaults: {devices: cuda:0, cache_gib: 100}}", TWO_GPUS, ["about 101.0 GiB are needed"]),
        (
            "{stages: {talker: {devices: cuda:0, cache_gib: 50}, codec: {devices: cuda:0,"
            " apart: true}}}",
            {"cuda:0": 51 * 2**30},
            ["about 52.0 GiB"],
        ),
    ],
)
def test_what_cannot_run_on_this_host_is_told(
    text: str, gpus: Mapping[str, int], told: list[str]
) -> None:
    found = [*problems(rows_of(text), "process", gpus)]
    assert len(found) == len(told), found
    for expected, line in zip(told, found, strict=True):
        assert expected in line


@pytest.mark.parametrize(
    ("devices", "num_ranks", "firsts"),
    [
        ("[cuda:0, cuda:1]", 1, ("cuda:0", "cuda:1")),
        ("[cuda:0, cuda:1]", 2, ("cuda:0",)),
        ("[cuda:0, cuda:1, cuda:2, cuda:3]", 2, ("cuda:0", "cuda:2")),
        ("[cuda:0, cuda:1, cuda:2]", 2, ("cuda:0",)),
        ("[cuda:0, cuda:2]", 2, ("cuda:0", "cuda:2")),
        ("cuda:1", 2, ("cuda:1",)),
        ("[cpu, cpu]", 2, ("cpu",)),
    ],
)
def test_replicas_of_several_ranks_share_no_gpu(
    devices: str, num_ranks: int, firsts: tuple[str, ...]
) -> None:
    file = read_placement([f"{{stages: {{diffusion: {{devices: {devices}}}}}}}"])
    placed = ModelPlacement(file, "toy", ModelSettings(source="toy"), "process", num_ranks)
    spec = family("toy").tasks["image"].pipeline[1]
    row = engine_row(placed, [spec], placed.placement([spec]), LoadContext(device="cpu"))
    assert row.devices == firsts
    assert row.placement.num_replicas == len(firsts)
    gpus = {f"cuda:{number}": 80 * 2**30 for number in range(4)}
    assert [*problems([row], "process", gpus)] == []
    fewer = {"cuda:0": 80 * 2**30}
    assert bool([*problems([row], "process", fewer)]) == (firsts[0] != "cpu")


def test_other_hosts_are_not_asked() -> None:
    rows = rows_of("{stages: {talker: {gpus: 1, replicas: 4}}}", "ray")
    assert [*problems(rows, "ray", {})] == []
    assert [row.devices for row in rows] == [("cuda",)]
    assert any("other hosts" in line for line in notes(rows, KINDS, "ray"))


def test_what_costs_or_means_nothing_is_noted() -> None:
    rows = rows_of(
        "{stages: {talker: {devices: [cuda:0, cuda:1], gpus: 1, codec_chunk_frames: 4},"
        " codec: {devices: cuda:1, gpus: 1}}}"
    )
    told = [*notes(rows, KINDS, "process")]
    assert any("talker: it has no codec" in line for line in told)
    assert any("gpus is for Ray" in line for line in told)
    assert any("codec: it runs apart" in line for line in told)
    assert any("codec: 128 streams of talker share 64 slots" in line for line in told)
    assert [*notes(rows_of("{}"), KINDS, "local")] == []


def test_weights_are_counted(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    placed = ModelPlacement(read_placement(["{}"]), "m", ModelSettings(source="toy"))
    spec = family("qwen3_tts").tasks["speech"].pipeline[0]
    row = engine_row(placed, [spec], placed.placement([spec]), LoadContext(tmp_path))
    assert row.num_bytes == 1000
