"""What a placement makes of stages: which share an engine, where each runs, and what is refused."""

import pytest

from antiphon.config import ModelSettings
from antiphon.contracts.family import LoadContext
from antiphon.errors import SettingsError
from antiphon.fabric.base import Placement
from antiphon.families.registry import family
from antiphon.placement.documents import read_placement
from antiphon.placement.model_placement import ModelPlacement

TASK = family("toy").tasks["speech"]
TALKER, CODEC = TASK.pipeline


def placed(
    text: str = "{}", *, fabric: str = "process", settings: ModelSettings | None = None
) -> ModelPlacement:
    file = read_placement([text])
    return ModelPlacement(file, "toy", settings or ModelSettings(source="toy"), fabric)


def test_without_a_placement_the_settings_hold_and_the_stages_share_an_engine() -> None:
    alone = placed(fabric="local")
    assert alone.is_colocated(TASK.pipeline)
    assert alone.placement([TALKER, CODEC]) == Placement(max_replicas=1)


@pytest.mark.parametrize(
    ("text", "is_colocated"),
    [
        ("{defaults: {devices: cuda:0}}", True),
        ("{stages: {talker: {devices: [cuda:0, cuda:1]}}}", True),
        ("{stages: {talker: {devices: cuda:0}, codec: {devices: cuda:0}}}", True),
        ("{stages: {talker: {devices: cuda:0}, codec: {devices: cuda:1}}}", False),
        ("{stages: {talker: {replicas: 4}, codec: {replicas: 1}}}", False),
        ("{stages: {talker: {gpus: 1}, decoder: {gpus: 0.5}}}", False),
        ("{stages: {codec: {apart: true}}}", False),
        ("{stages: {codec: {labels: {gpu: small}}}}", False),
        ("{stages: {codec: {codec_chunk_frames: 4}}}", True),
        ("{models: {toy: {stages: {codec: {devices: cuda:1}}}}}", False),
        ("{models: {other: {stages: {codec: {devices: cuda:1}}}}}", True),
        ("{models: {toy: {defaults: {max_batch: 8}}}, stages: {talker: {max_batch: 9}}}", True),
    ],
)
def test_a_decoder_shares_its_engine_unless_it_is_placed_elsewhere(
    text: str, is_colocated: bool
) -> None:
    assert placed(text).is_colocated(TASK.pipeline) is is_colocated


def test_a_device_of_its_own_in_the_settings_is_a_shorthand() -> None:
    apart = placed(fabric="local", settings=ModelSettings(source="toy", decoder_device="cuda:1"))
    assert not apart.is_colocated(TASK.pipeline)
    assert apart.placement([CODEC]).device == "cuda:1"
    assert apart.placement([TALKER]).device is None


def test_names_win_over_kinds_over_defaults_and_the_model_over_all() -> None:
    text = """{
        defaults: {max_batch: 1, memory_fraction: 0.5},
        stages: {autoregressive: {max_batch: 2, cache_gib: 2}, talker: {max_batch: 3}},
        models: {toy: {stages: {talker: {cache_gib: 1}}}}
    }"""
    section = placed(text).section(TALKER)
    assert (section.max_batch, section.cache_gib, section.memory_fraction) == (3, 1, 0.5)


def test_all_that_a_stage_can_be_told_arrives_where_it_is_loaded() -> None:
    text = """{stages: {talker: {
        devices: [cuda:0, cuda:1], replicas: {min: 1, start: 2, max: 4}, gpus: 0.5, cpus: 2,
        max_batch: 7, memory_fraction: 0.4, cache_gib: 1.5, dtype: bfloat16,
        initial_codec_chunk_frames: 2, codec_chunk_frames: 8, codec_chunk_growth: 2,
        environment: {B: 2, A: true}
    }}}"""
    placement = placed(text).placement([TALKER, CODEC])
    assert (placement.num_replicas, placement.min_replicas, placement.max_replicas) == (2, 1, 4)
    contexts = [placement.context_of(LoadContext(), number) for number in range(3)]
    assert [each.device for each in contexts] == ["cuda:0", "cuda:1", "cuda:0"]
    assert placement.environment == (("A", "true"), ("B", "2"))
    assert (placement.num_gpus, placement.num_cpus) == (0.5, 2.0)
    context = placement.context_of(LoadContext(max_slots=3), 1)
    assert (context.device, context.max_slots, context.memory_fraction) == ("cuda:1", 7, 0.4)
    assert context.has_fixed_slots
    assert not Placement().context_of(LoadContext(max_slots=3), 0).has_fixed_slots
    assert (context.cache_bytes, context.dtype) == (3 * 2**29, "bfloat16")
    assert context.playback is not None
    policy = context.playback
    assert (policy.first_frames, policy.largest_frames, policy.spacing) == (2, 8, 2)
    hash(placement)  # equal placements are hosted once


def test_a_replica_for_each_device_unless_said_otherwise() -> None:
    text = "{stages: {talker: {devices: [cuda:0, cuda:1, cuda:2]}}}"
    assert placed(text).placement([TALKER, CODEC]).num_replicas == 3


@pytest.mark.parametrize(
    ("text", "fabric", "told"),
    [
        ("{defaults: {replicas: 2}}", "local", "2 replicas need the fabric 'process' or 'ray'"),
        ("{defaults: {replicas: {min: 1, max: 2}}}", "local", "2 replicas"),
        ("{defaults: {devices: [cuda:0, cuda:1]}}", "local", "2 replicas and 2 devices"),
        ("{defaults: {environment: {A: 1}}}", "local", "an environment of their own"),
        ("{defaults: {memory_fraction: 0.5}}", "local", "a share of the memory"),
        ("{defaults: {labels: {a: b}}}", "process", "takes the fabric 'ray'"),
        ("{defaults: {devices: cuda:1}}", "ray", "give 'gpus'.*instead of the device cuda:1"),
        ("{defaults: {devices: [cuda, cpu]}}", "ray", "Invalid 'devices': cuda, cpu"),
        ("{stages: {codec: {max_batch: 3}}}", "process", "codec.max_batch: the stage shares"),
        ("{stages: {codec: {dtype: float32}}}", "process", "codec.dtype: the stage shares"),
    ],
)
def test_what_a_fabric_or_an_engine_cannot_do_is_refused(text: str, fabric: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        placed(text, fabric=fabric).placement([TALKER, CODEC])


def test_a_decoder_cannot_be_told_to_share_and_to_be_elsewhere() -> None:
    text = "{stages: {talker: {devices: cuda:0}, codec: {devices: cuda:1, apart: false}}}"
    with pytest.raises(SettingsError, match="its devices differ from those of 'talker'"):
        placed(text).is_colocated(TASK.pipeline)
