"""Requests are completed, and refused with the field that is wrong and what is allowed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.config.diffusion import DiffusionSettings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, VideoRequest
from antiphon.errors import InvalidRequestError, ModelLoadError
from antiphon.fabric.wire.safe_pickle import dumps, loads
from antiphon.families.wan_video.prompt import MAX_PROMPT_TOKENS, WanPrompter, clean_prompt
from tests.families.wan_video.conftest import WanCheckpoint
from tests.families.wan_video.official import LAYOUTS, small_request, some_image


def prompter(path: Path, **settings: Any) -> WanPrompter:
    return WanPrompter(LoadContext(path, device="cpu", diffusion=DiffusionSettings(**settings)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_capabilities_say_what_a_layout_takes(wan: WanCheckpoint, layout: str) -> None:
    loaded = prompter(wan(layout))
    told = loaded.capabilities
    assert told.size_multiple == (32 if layout.startswith("ti2v") else 16)
    assert told.frame_multiple == 4
    assert told.needs_image is layout.startswith("i2v")
    assert told.takes_image is layout.startswith(("i2v", "ti2v"))
    ratio = {"t2v-2.2-a14b": 0.875, "i2v-2.2-a14b": 0.9}.get(layout)
    assert told.parameters.boundary_ratio == ratio
    assert (told.parameters.guidance_scale_2 is None) is (ratio is None)
    assert told.parameters.flow_shift == (5.0 if layout.startswith("ti2v") else 3.0)
    width, height = told.default_size
    assert width % told.size_multiple == height % told.size_multiple == 0
    assert told.default_num_frames % told.frame_multiple == 1
    data = loaded.build(told.sample_request, 0).data
    assert (data.image is None) is not told.needs_image


@pytest.mark.parametrize(
    ("changed", "param", "said"),
    [
        ({"num_frames": 6}, "num_frames", "the nearest is 5"),
        ({"num_frames": 8}, "num_frames", "the nearest is 9"),
        ({"num_frames": 0}, "num_frames", "the nearest is 1"),
        ({"width": 50}, "size", "multiples of 16; the nearest is 48x64"),
        ({"height": 0}, "size", "the nearest is 48x16"),
        ({"image": some_image()}, "input_reference", "from text alone"),
        ({"prompt": "x " * 600}, "prompt", f"at most {MAX_PROMPT_TOKENS}"),
        ({"negative_prompt": "x " * 600}, "negative_prompt", f"at most {MAX_PROMPT_TOKENS}"),
    ],
)
def test_what_the_model_cannot_make_is_refused(
    wan: WanCheckpoint, changed: dict[str, Any], param: str, said: str
) -> None:
    loaded = prompter(wan("t2v-2.1"))
    with pytest.raises(InvalidRequestError, match=said) as caught:
        loaded.build(replace(small_request("t2v-2.1"), **changed), 1)
    assert caught.value.param == param


def test_a_model_that_animates_asks_for_an_image(wan: WanCheckpoint) -> None:
    loaded = prompter(wan("i2v-2.1"))
    with pytest.raises(InvalidRequestError, match="input_reference"):
        loaded.build(small_request("i2v-2.1", image=None), 1)


def test_the_parameters_of_a_second_expert_mean_nothing_to_one(wan: WanCheckpoint) -> None:
    given = DiffusionParameters(boundary_ratio=0.5, guidance_scale_2=2.0)
    loaded = prompter(wan("t2v-2.1"))
    assert loaded.build(small_request("t2v-2.1", parameters=given), 1).data.boundary_ratio is None
    two = prompter(wan("t2v-2.2-a14b"))
    data = two.build(small_request("t2v-2.2-a14b", parameters=given), 1).data
    assert (data.boundary_ratio, data.guidance_scale_2) == (0.5, 2.0)


def test_settings_change_what_requests_leave_open(wan: WanCheckpoint) -> None:
    loaded = prompter(wan("t2v-2.2-a14b"), flow_shift=7.0, boundary_ratio=0.0)
    data = loaded.build(VideoRequest("a cat"), 1).data
    assert (data.flow_shift, data.boundary_ratio) == (7.0, 0.0)
    data = loaded.build(VideoRequest("a cat", parameters=DiffusionParameters(flow_shift=2)), 1).data
    assert data.flow_shift == 2
    with pytest.raises(ModelLoadError, match="boundary_ratio"):
        prompter(wan("t2v-2.1"), boundary_ratio=0.5)


@pytest.mark.parametrize(
    ("shape", "is_wide"), [((300, 600), True), ((600, 300), False), ((1, 500), True)]
)
def test_a_size_that_is_left_open_has_the_shape_of_the_image(
    wan: WanCheckpoint, shape: tuple[int, int], is_wide: bool
) -> None:
    loaded = prompter(wan("i2v-2.1"))
    image = np.zeros((*shape, 3), np.uint8)
    width, height = loaded.choose_size(VideoRequest("a cat", image=image))
    assert (width > height) is is_wide
    assert width % 16 == height % 16 == 0
    default_width, default_height = loaded.capabilities.default_size
    assert 0.8 < width * height / (default_width * default_height) <= 1
    assert loaded.choose_size(VideoRequest("a", image=image, width=64, height=32)) == (64, 32)


def test_prompts_cross_processes(wan: WanCheckpoint) -> None:
    prompt = prompter(wan("i2v-2.1")).build(small_request("i2v-2.1"), 1)
    other = loads(dumps(prompt))
    np.testing.assert_array_equal(other.data.image, prompt.data.image)
    assert replace(other.data, image=None) == replace(prompt.data, image=None)


TEXTS = (
    "a cat",
    "  two\t\n spaces \u3000 here ",
    "&lt;b&gt; &amp;amp;amp; &quot;quoted&quot;",
    "\x1f separators \x1c of files",
    "\u201ccurly\u201d and sch\u00c3\u00b6n",
    "",
)


@pytest.mark.parametrize("text", TEXTS)
def test_cleaning_is_that_of_diffusers(text: str) -> None:
    from diffusers.pipelines.wan.pipeline_wan import prompt_clean

    assert clean_prompt(text) == prompt_clean(text)


def test_quotes_and_encodings_are_mended() -> None:
    assert clean_prompt(" \u201ccat &amp; dog\u201d ") == '"cat & dog"'
