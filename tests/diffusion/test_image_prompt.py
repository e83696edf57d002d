from typing import Any

import pytest

from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.contracts.pictures import ImageCapabilities
from antiphon.diffusion.image_prompt import ImagePrompter, image_work
from antiphon.errors import InvalidRequestError


class Words(ImagePrompter):
    capabilities = ImageCapabilities(
        sample_request=ImageRequest("ready"),
        parameters=DiffusionParameters(num_inference_steps=4, guidance_scale=2.0),
        size_multiple=16,
        default_size=(64, 32),
        max_prompt_tokens=3,
    )

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def test_what_a_request_leaves_open_is_filled() -> None:
    prompt = Words().build(ImageRequest("a cat", negative_prompt="no dog here"), 7)
    assert (prompt.data.width, prompt.data.height) == (64, 32)
    assert prompt.data.parameters.guidance_scale == 2.0
    assert prompt.data.num_steps == 4
    assert prompt.num_tokens == 5, "of both prompts"
    assert prompt.seed == 7


def test_what_it_says_stays() -> None:
    asked = ImageRequest(
        "a cat", width=16, height=48, parameters=DiffusionParameters(num_inference_steps=2)
    )
    data = Words().build(asked, 0).data
    assert (data.width, data.height, data.num_steps) == (16, 48, 2)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"width": 17, "height": 16}, "size"),
        ({"width": 16, "height": 8}, "size"),
        ({"width": 0, "height": 16}, "size"),
        ({"parameters": DiffusionParameters(num_inference_steps=0)}, "num_inference_steps"),
        ({"prompt": "one two three four"}, "prompt"),
        ({"negative_prompt": "one two three four"}, "negative_prompt"),
    ],
)
def test_what_no_image_could_have_is_refused(more: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        Words().build(ImageRequest(**{"prompt": "a cat", **more}), 0)
    assert refused.value.param == param


def test_guidance_costs_a_second_pass_and_batches_apart() -> None:
    prompt = Words().build(ImageRequest("a cat", num_previews=1), 0)
    guided, plain = (
        image_work(prompt, num_positions=8, is_guided=is_guided, num_bytes=0, batch_key=None)
        for is_guided in (True, False)
    )
    assert (guided.cost, plain.cost) == (16, 8)
    assert guided.batch_key != plain.batch_key
    assert guided.preview_steps == {2}
