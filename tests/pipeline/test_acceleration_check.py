"""What a family cannot do is refused at the start, by the flag's name, with those that can."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.flags import settings_of
from antiphon.cli.serve import ServeFlags
from antiphon.config import ModelSettings
from antiphon.config.diffusion import Acceleration, DiffusionSettings
from antiphon.config.sources import load_settings
from antiphon.contracts.family import LoadContext
from antiphon.errors import SettingsError
from antiphon.families import registry
from antiphon.families.registry import family
from antiphon.pipeline import acceleration_check, runtime
from antiphon.pipeline.acceleration_check import (
    accelerations_of,
    check_accelerations,
    check_gpus,
    denoises,
)
from antiphon.pipeline.runtime import LoadedTask, load_tasks

ROOT = Path(__file__).parents[2]
SPEAKING = family("hibari")
PLAIN = replace(family("toy"), name="plain")
ABLE = replace(family("toy"), name="able", accelerations=frozenset(Acceleration))
ASKED: list[tuple[dict[str, Any], str]] = [
    ({"cache_backend": "cache_dit"}, "--cache-backend cache_dit"),
    ({"cache_backend": "tea_cache"}, "--cache-backend tea_cache"),
    ({"vae_use_slicing": True}, "--vae-use-slicing"),
    ({"vae_use_tiling": True}, "--vae-use-tiling"),
    ({"enable_cpu_offload": True}, "--enable-cpu-offload"),
    ({"enable_layerwise_offload": True}, "--enable-layerwise-offload"),
    ({"flow_shift": 3.0}, "--flow-shift"),
    ({"boundary_ratio": 0.9}, "--boundary-ratio"),
    ({"ulysses_degree": 2}, "--ulysses-degree"),
    ({"ring_degree": 2}, "--ring-degree"),
    ({"cfg_parallel_size": 2}, "--cfg-parallel-size"),
]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration_check, "families", lambda: [SPEAKING, PLAIN, ABLE])


@pytest.mark.parametrize(("asked", "flag"), ASKED, ids=[flag for _, flag in ASKED])
def test_a_flag_is_refused_where_it_cannot_be_honoured(asked: dict[str, Any], flag: str) -> None:
    settings = DiffusionSettings(**asked)
    assert [*accelerations_of(settings).values()] == [flag]
    check_accelerations([SPEAKING, ABLE], settings)
    with pytest.raises(SettingsError, match=f"{flag}: 'plain' cannot.* can: able"):
        check_accelerations([PLAIN, ABLE], settings)
    with pytest.raises(SettingsError, match=f"{flag}: none of the models.* can: able"):
        check_accelerations([SPEAKING], settings)


def test_every_acceleration_is_asked_for_by_some_flag() -> None:
    asked = [accelerations_of(DiffusionSettings(**each)) for each, _ in ASKED]
    assert {key for each in asked for key in each} == set(Acceleration)


def test_nothing_is_asked_for_by_default() -> None:
    check_accelerations([SPEAKING, PLAIN], DiffusionSettings())
    assert {name for name, task in PLAIN.tasks.items() if denoises(task)} == {"image", "video"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"cache_config": {"threshold": 0.1}}, "--cache-config: it is for"),
        ({"enable_cache_dit_summary": True, "cache_backend": "tea_cache"}, "summary: it is for"),
        ({"enable_cpu_offload": True, "enable_layerwise_offload": True}, "only one of them"),
        ({"cfg_parallel_size": 2, "cache_backend": "cache_dit"}, "--cache-backend: not with"),
        ({"ulysses_degree": 2, "ring_degree": 2}, "combining Ulysses"),
    ],
)
def test_what_contradicts_or_says_nothing_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check_accelerations([ABLE], DiffusionSettings(**asked))


def gpus(number: int) -> Callable[[], dict[str, int]]:
    return lambda: {f"cuda:{index}": 2**30 for index in range(number)}


@pytest.mark.parametrize(
    ("asked", "device", "num_gpus", "message"),
    [
        ({"ulysses_degree": 2}, "auto", 0, r"^--ulysses-degree 2: needs 2 GPUs .*no GPU that"),
        ({"cfg_parallel_size": 2}, "auto", 0, r"^--cfg-parallel-size 2: needs 2 GPUs.*'cpu'"),
        ({"ring_degree": 4}, "cuda", 2, r"^--ring-degree 4: needs 4.* has cuda:0, cuda:1\."),
        ({"ulysses_degree": 2, "cfg_parallel_size": 2}, "cuda:0", 3, r"2 --cfg.*: needs 4 GPUs"),
        ({"ulysses_degree": 2}, "cuda:1", 2, "Its device is 'cuda:1'"),
        ({"ulysses_degree": 2}, "cpu", 4, "Its device is 'cpu'"),
    ],
)
def test_more_gpus_than_there_are_are_refused(
    asked: dict[str, Any], device: str, num_gpus: int, message: str
) -> None:
    context = LoadContext(device=device, diffusion=DiffusionSettings(**asked))
    with pytest.raises(SettingsError, match=message):
        check_gpus([context], gpus(num_gpus))
    check_gpus([LoadContext(device=device)], gpus(num_gpus))
    if device != "cpu":
        check_gpus([context], gpus(5))


def test_ring_attention_needs_16_bits() -> None:
    context = LoadContext(dtype="float32", diffusion=DiffusionSettings(ring_degree=2))
    with pytest.raises(SettingsError, match="--dtype bfloat16, not float32"):
        check_gpus([context], gpus(2))


def test_a_model_is_not_loaded_without_its_gpus(
    drawing_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # all families are known
    monkeypatch.setattr(runtime, "build_stage", lambda *_: pytest.fail("it is loaded"))
    source = str(drawing_checkpoint("qwen_image", "base"))
    load = load_tasks(
        ModelSettings(source=source, device="cpu"),
        {"image": LoadedTask},
        diffusion=DiffusionSettings(ulysses_degree=2),
    )
    with pytest.raises(SettingsError, match="--ulysses-degree 2: needs 2 GPUs"):
        asyncio.run(load)


def test_a_cache_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration_check, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"cache_dit: it needs cache-dit.*omni"):
        check_accelerations([ABLE], DiffusionSettings(cache_backend="cache_dit"))


def test_flags_become_settings() -> None:
    flags = ServeFlags(
        "toy",
        cache_backend="cache_dit",
        cache_config='{"residual_diff_threshold": 0.1}',
        default_video_fps=12,
        cfg_parallel_size=2,
    )
    settings = load_settings(settings_of(flags), environment={})
    assert settings.diffusion.cache_config == {"residual_diff_threshold": 0.1}
    assert settings.diffusion.num_processes == 2
    assert settings.videos.default_fps == 12
    for wrong in ("{", "[1]"):
        with pytest.raises(SettingsError, match="cache_config"):
            load_settings({"diffusion.cache_config": wrong}, environment={})


def test_the_table_of_families_tells_what_they_declare() -> None:
    """A cell of docs/acceleration.md begins with "no" where a family refuses the flag."""
    table = (ROOT / "docs" / "acceleration.md").read_text(encoding="utf-8").split("## ")[2]
    header, _, *rows = [line for line in table.splitlines() if line.startswith("|")]
    names = [cell.strip() for cell in header.split("|")[2:-1]]
    assert set(names) == {each.name for each in registry.families() if each.accelerations}
    told: dict[str, dict[str, bool]] = {}
    for row in rows:
        flags, *cells = row.split("|")[1:-1]
        able = {
            name: not cell.strip().startswith("no") for name, cell in zip(names, cells, strict=True)
        }
        told |= {flag: able for flag in re.findall(r"`([^`]+)`", flags)}
    for asked, flag in ASKED:
        (acceleration,) = accelerations_of(DiffusionSettings(**asked))
        declared = {name: acceleration in registry.family(name).accelerations for name in names}
        assert told[flag] == declared, flag
