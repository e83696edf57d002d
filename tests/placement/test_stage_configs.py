"""vLLM-Omni's stage configs as placements: what is translated, what is told, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.config import ModelSettings
from antiphon.errors import SettingsError
from antiphon.families.registry import family
from antiphon.placement.documents import read_placement
from antiphon.placement.model_placement import ModelPlacement
from antiphon.placement.stage_configs import Translation, translate
from antiphon.stages.build import engine_groups

SHAPES = Path(__file__).parent / "stage_configs"
PIPELINE = family("toy").tasks["speech"].pipeline


def placed(told: Translation) -> ModelPlacement:
    file = read_placement([json.dumps(told.values)])
    return ModelPlacement(file, "toy", ModelSettings(source="toy"), file.fabric or "local")


def entries(value: Any) -> int:
    """Count the entries that somebody wrote."""
    if isinstance(value, dict):
        return sum(entries(each) for each in value.values())
    return 1


@pytest.mark.parametrize("path", sorted(SHAPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shape_becomes_a_placement_and_every_entry_is_told_of(path: Path) -> None:
    told = translate(path, PIPELINE)
    file = placed(told)
    for specs in engine_groups(PIPELINE, is_colocated=file.is_colocated(PIPELINE)):
        file.placement(specs)
    report = "\n".join(remark.entry for remark in told.remarks)
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    for stage in values.get("stages") or values["stage_args"]:
        flat = {**stage, **stage.get("engine_args", {}), **stage.get("runtime", {})}
        untold = {"stage_id", "model_stage", "tensor_parallel_size", "engine_args", "runtime"}
        for key in flat.keys() - untold:
            assert f"stage {stage['stage_id']}: {key}: " in report
    assert "unknown here" not in {remark.meaning for remark in told.remarks}


def test_stages_of_one_device_share_an_engine_as_they_do_here() -> None:
    told = translate(SHAPES / "deploy.yaml", PIPELINE)
    file = placed(told)
    assert file.is_colocated(PIPELINE)
    placement = file.placement(PIPELINE)
    assert (placement.device, placement.max_slots) == ("cuda:0", 64)
    assert placement.memory_fraction == 0.6
    [(_, playback)] = placement.settings
    assert (playback.first_frames, playback.largest_frames) == (1, 25)
    dropped = {each.entry.split(":")[1].strip() for each in told.remarks if not each.is_translated}
    assert {"codec_left_context_frames", "default_sampling_params"} <= dropped


def test_an_overlay_changes_stages_by_their_numbers() -> None:
    file = placed(translate(SHAPES / "two_gpus.yaml", PIPELINE))
    assert not file.is_colocated(PIPELINE)
    talker, codec = (file.placement([spec]) for spec in PIPELINE)
    assert (talker.devices, talker.num_replicas) == (("cuda:0", "cuda:1"), 2)
    assert (talker.max_slots, talker.memory_fraction) == (128, 0.3)
    assert talker.environment == (("OMP_NUM_THREADS", "2"),)
    assert (codec.device, codec.max_slots) == ("cuda:2", 32)
    playback = dict(codec.settings)["playback"]
    assert (playback.first_frames, playback.largest_frames, playback.spacing) == (4, 25, 2)


def test_the_older_layout_says_the_same_in_other_places() -> None:
    told = translate(SHAPES / "older.yaml", PIPELINE)
    placement = placed(told).placement(PIPELINE)
    assert (placement.device, placement.max_slots, placement.memory_fraction) == ("cuda:1", 10, 0.5)
    remarks = {each.entry: each for each in told.remarks}
    assert not remarks["stage 1: dtype: float16"].is_translated
    assert not remarks["connector shared_memory: initial_codec_chunk_frames: 0"].is_translated


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("stages: [{stage_id: 0}, {stage_id: 1}, {stage_id: 2}]", "a stage 2, but this model's"),
        ("fabric: ray", "no list 'stages'"),
        ("stages: [{stage_id: zero}]", "'zero' is no number of a stage"),
        ("stages: [{stage_id: 0, devices: gpu}]", "'gpu' is no list of GPUs"),
        ("stages: [{tensor_parallel_size: none}]", "'none' is no number"),
        ("base_config: other.yaml\nstages: []", "base_config: there is no file"),
        ("stages: [", "while parsing"),
    ],
)
def test_what_is_no_stage_config_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=told):
        translate(path, PIPELINE)


def test_a_stage_that_spans_devices_runs_on_the_first_of_each_group(tmp_path: Path) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text("stages: [{stage_id: 0, devices: '0,1,2,3', tensor_parallel_size: 2}]")
    told = translate(path, PIPELINE)
    assert told.values["stages"]["talker"]["devices"] == ["cuda:0", "cuda:2"]
    assert any("tensor_parallel_size" in each.entry for each in told.remarks)
