"""Random weights of every family that is measured speak until their limit of frames."""

import asyncio
from typing import Any

import pytest

from antiphon.config import ModelSettings
from antiphon.errors import ModelLoadError
from antiphon.families.measured import measured_family
from antiphon.families.registry import families
from antiphon_bench.engine import Load, frame_products, run, text_for
from antiphon_bench.random_model import random_checkpoint

MEASURED = [
    each.name
    for each in families()
    if each.measuring and each.measuring.task == "speech" and not each.measuring.is_usual
]
FRAMES = 12
MANY_FRAMES = 60


def measured(family: str, load: Load) -> dict[str, Any]:
    made = random_checkpoint("tiny", "custom_voice", of_family=family)
    with made as path:
        settings = ModelSettings(source=str(path), device="cpu", max_slots=load.concurrency)
        _, measuring = measured_family(family)
        assert bool(frame_products(settings)) == (measuring.frame_products is not None)
        report = asyncio.run(run(settings, [load]))
    result: dict[str, Any] = report["results"][0]
    assert result["num_frames"] == load.concurrency * load.num_frames
    return result


@pytest.mark.parametrize(
    "family",
    # Slow: more of the same, and all of them are in the next test.
    [MEASURED[0], *(pytest.param(each, marks=pytest.mark.slow) for each in MEASURED[1:])],
)
def test_a_family_is_measured_on_random_weights(family: str) -> None:
    text = text_for(FRAMES, has_real_tokens=False)
    assert measured(family, Load(2, FRAMES, text))["num_restarts"] == 0


@pytest.mark.slow  # many frames of each family
@pytest.mark.parametrize("family", MEASURED)
def test_no_stream_ends_before_its_frames(family: str) -> None:
    _, measuring = measured_family(family)
    frames_per_token = measuring.frames_per_token
    text = text_for(MANY_FRAMES, has_real_tokens=False, frames_per_token=frames_per_token)
    assert measured(family, Load(1, MANY_FRAMES, text))["num_restarts"] == 0


def test_one_family_is_measured_where_none_is_named() -> None:
    measured = [each.measuring for each in families() if each.measuring]
    usual = [each.task for each in measured if each.is_usual]
    assert sorted(usual) == ["chat", "speech"]
    for task in usual:
        found, measuring = measured_family(None, task)
        assert measuring.is_usual
        assert measuring.task == task
        assert measured_family(found.name, task) == (found, measuring)
    with pytest.raises(ModelLoadError, match=r"those of .*voxcpm2.* are"):
        measured_family("kokoro")
    with pytest.raises(ModelLoadError, match="not measured for chat"):
        measured_family("voxcpm2", "chat")
    with pytest.raises(ModelLoadError, match="Unknown model"):
        measured_family("nobody")
