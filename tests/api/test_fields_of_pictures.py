"""Every field that others have for images and videos is served, without effect, or refused."""

from typing import Any

import httpx
import pytest
from openai.types.image_edit_params import ImageEditParamsStreaming
from openai.types.image_generate_params import ImageGenerateParamsStreaming
from openai.types.video_create_params import VideoCreateParams

from antiphon.api.images import _IMAGES, _MASKS
from antiphon.api.schemas.field_rules import field_classes
from antiphon.api.schemas.images import ImageBody
from antiphon.api.schemas.videos import VideoBody
from antiphon.families.registry import families
from tests.decoding import error_of
from tests.pictures import data_uri, png
from tests.servers import RunningServer

GENERATIONS, EDITS, VIDEOS = "/v1/images/generations", "/v1/images/edits", "/v1/videos/sync"
IMAGE: dict[str, Any] = {"prompt": "a cat", "seed": 5, "size": "32x32"}
VIDEO: dict[str, Any] = {"prompt": "a cat", "seed": 5, "size": "32x24", "num_frames": 5}
VLLM_OMNI_IMAGES = {
    *("prompt", "model", "n", "size", "response_format", "user", "negative_prompt", "layers"),
    *("num_inference_steps", "guidance_scale", "true_cfg_scale", "flow_shift", "seed", "lora"),
    *("extra_params", "generator_device", "vae_use_slicing", "vae_use_tiling", "output_format"),
    *("output_compression", "system_prompt", "use_system_prompt", "bot_task"),
    *("infer_align_image_size", "return_stage_metrics", "strength", "resolution", "stream"),
}
VLLM_OMNI_VIDEOS = {
    *("prompt", "model", "seconds", "size", "user", "input_reference", "image_reference"),
    *("video_reference", "audio_reference", "width", "height", "num_frames", "fps"),
    *("num_inference_steps", "guidance_scale", "guidance_scale_2", "boundary_ratio"),
    *("flow_shift", "true_cfg_scale", "seed", "generate_sound", "sound_duration", "lora"),
    *("negative_prompt", "enable_frame_interpolation", "frame_interpolation_exp", "extra_params"),
    *("frame_interpolation_scale", "frame_interpolation_model_path", "video_params"),
    *("preencode_mp4", "video_codec_options"),
}
READ_BEFORE = {"image_reference", "video_params", *_IMAGES, *_MASKS}
"""Members that are read, or moved, before a body is made of the others."""
UNSERVED = [
    *((GENERATIONS, name) for name, kind in field_classes(ImageBody).items() if kind == "unserved"),
    *((VIDEOS, name) for name, kind in field_classes(VideoBody).items() if kind == "unserved"),
]


def made(server: RunningServer, url: str, **members: Any) -> httpx.Response:
    body = {**(VIDEO if url == VIDEOS else IMAGE), **members}
    if url == EDITS:
        body["images"] = body.get("images", [data_uri(png())])
    return httpx.post(server.base_url + url, json=body, timeout=60)


def fields_of(typed: Any) -> set[str]:
    return {*typed.__required_keys__, *typed.__optional_keys__}


def test_every_field_of_others_is_known() -> None:
    images = fields_of(ImageGenerateParamsStreaming) | fields_of(ImageEditParamsStreaming)
    assert images | VLLM_OMNI_IMAGES <= {*field_classes(ImageBody), *READ_BEFORE}
    videos = fields_of(VideoCreateParams) | VLLM_OMNI_VIDEOS
    assert videos <= {*field_classes(VideoBody), *READ_BEFORE}


def test_no_option_of_a_family_is_refused_before_the_family_sees_it() -> None:
    for family in families():
        for task in family.tasks.values():
            for model in (ImageBody, VideoBody):
                refused = {n for n, kind in field_classes(model).items() if kind != "served"}
                assert not refused & set(task.options.model_fields)


@pytest.mark.parametrize(("url", "name"), UNSERVED)
def test_a_field_that_would_change_the_picture_is_refused(
    server: RunningServer, url: str, name: str
) -> None:
    error = error_of(made(server, url, **{name: "x"}), 400)
    assert (error["param"], error["code"]) == (name, "not_supported")
    within = error_of(made(server, url, extra_params={name: "x"}), 400)
    assert within["param"] == name


@pytest.mark.parametrize("url", [GENERATIONS, EDITS, VIDEOS])
def test_values_that_turn_a_field_off_change_nothing(server: RunningServer, url: str) -> None:
    off: dict[str, Any] = {"lora": {}, "layers": 1, "strength": None, "system_prompt": ""}
    off |= {"vae_use_slicing": False, "vae_use_tiling": True, "generator_device": "cpu"}
    if url == VIDEOS:
        off |= {"generate_sound": False, "enable_frame_interpolation": False}
        off |= {"frame_interpolation_exp": 1, "video_params": {"fps": 16, "num_frames": 9}}
    plain = made(server, url, **({"fps": 16} if url == VIDEOS else {}))
    answer = made(server, url, **off)
    assert answer.status_code == plain.status_code == 200, answer.text
    assert "x-ignored-fields" not in answer.headers
    if url == VIDEOS:
        assert answer.content == plain.content
    else:
        assert answer.json()["data"] == plain.json()["data"]


@pytest.mark.parametrize(
    ("url", "members", "param"),
    [
        (GENERATIONS, {"vae_use_slicing": "wrong"}, "vae_use_slicing"),
        (GENERATIONS, {"generator_device": 1}, "generator_device"),
        (GENERATIONS, {"annotations": "all"}, "annotations"),
        (GENERATIONS, {"safety_identifier": []}, "safety_identifier"),
        (EDITS, {"images": [{"image_url": data_uri(png()), "weight": 2}]}, "images.weight"),
        (EDITS, {"strength": 0.5}, "strength"),
        (VIDEOS, {"vae_use_tiling": 7}, "vae_use_tiling"),
        (VIDEOS, {"video_params": {"frames": 5}}, "video_params.frames"),
        (VIDEOS, {"video_params": "x"}, "video_params"),
        (VIDEOS, {"input_reference": {"image_url": "x", "weight": 1}}, "input_reference.weight"),
        (VIDEOS, {"frame_interpolation_exp": "many"}, "frame_interpolation_exp"),
    ],
)
def test_fields_without_effect_and_nested_ones_are_checked(
    server: RunningServer, url: str, members: dict[str, Any], param: str
) -> None:
    assert error_of(made(server, url, **members), 400)["param"] == param
