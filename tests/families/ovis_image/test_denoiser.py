"""Settings that differ are stepped apart, and an instruction is counted as the pipeline's is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from diffusers import OvisImagePipeline

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.errors import InvalidRequestError
from antiphon.families.ovis_image.checkpoint import INSTRUCTION, NUM_DROPPED_TOKENS
from antiphon.families.ovis_image.prompt import OvisImagePrompter
from antiphon.families.ovis_image.stages import OvisImageTextEncoder
from tests.drawing import Stages

NAME = "ovis_image"


def request(
    prompt: str = "a red cat",
    negative: str = "dogs",
    *,
    scale: float = 5.0,
    steps: int = 2,
    height: int = 32,
) -> ImageRequest:
    return ImageRequest(
        prompt,
        negative_prompt=negative,
        width=32,
        height=height,
        parameters=DiffusionParameters(num_inference_steps=steps, guidance_scale=scale),
    )


def test_tokens_are_counted_after_the_pipeline_s_instruction(
    drawing_checkpoint: Callable[..., Path],
) -> None:
    pipeline: Any = OvisImagePipeline.from_pretrained(str(drawing_checkpoint(NAME)))
    assert pipeline.system_prompt == INSTRUCTION
    assert pipeline.user_prompt_begin_id == NUM_DROPPED_TOKENS


def test_settings_that_differ_are_stepped_apart(drawing_checkpoint: Callable[..., Path]) -> None:
    stages = Stages(NAME, drawing_checkpoint(NAME))
    keys = {
        stages.denoiser.work(stages.prompter.build(each, 0)).batch_key
        for each in (
            request(),
            request("something else", "other", steps=3),  # as the first
            request(scale=1.0),
            request(scale=4.0),
            request(height=48),
        )
    }
    assert len(keys) == 4


def test_a_prompt_may_fill_the_text_encoder_and_no_more(
    drawing_checkpoint: Callable[..., Path],
) -> None:
    context = LoadContext(path=drawing_checkpoint("ovis_image"), device="cpu")
    prompter = OvisImagePrompter(context)
    most = prompter.capabilities.max_prompt_tokens
    assert most is not None
    with pytest.raises(InvalidRequestError, match=str(most)):
        prompter.build(ImageRequest("x" * (most + 1)), 1)
    prompt = prompter.build(ImageRequest("x" * most), 1)
    (full,) = OvisImageTextEncoder(context).generate(prompt)
    embeds = full.data["prompt_embeds"]
    assert embeds.shape[1] == 256
    assert embeds[0, -1].any(), "the last position is a token, not padding"
