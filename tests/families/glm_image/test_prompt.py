"""What the prompter refuses, and how codes are drawn unless a request says otherwise."""

from typing import Any

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.families.glm_image.prompt import MAX_PROMPT_TOKENS, GlmImagePrompter
from tests.families.glm_image.priors import ask


@pytest.mark.parametrize(
    ("request_fields", "param"),
    [
        ({"negative_prompt": "dogs"}, "negative_prompt"),
        ({"text": "x" * (MAX_PROMPT_TOKENS + 1)}, "prompt"),
        ({"width": 2048, "height": 4096}, "size"),
        ({"width": 32, "height": 32 * 300}, "size"),
    ],
)
def test_what_the_model_cannot_do_is_refused(
    prompter: GlmImagePrompter, request_fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        prompter.build(ask(**request_fields), 0)
    assert refused.value.param == param


def test_sampling_is_the_checkpoints_unless_options_say_otherwise(
    prompter: GlmImagePrompter,
) -> None:
    usual = prompter.build(ask(), 0).sampling
    assert (usual.temperature, usual.top_k, usual.top_p) == (0.9, 0, 0.75)
    other = prompter.build(ask(options={"prior_top_k": 7}), 0).sampling
    assert (other.temperature, other.top_k, other.top_p) == (0.9, 7, 0.75)
    assert usual.max_frames == 19 * 13 + 3 * 2
