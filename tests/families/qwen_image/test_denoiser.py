"""What a request says matters, and texts of any length are stepped together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import QwenImagePipeline

from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.families.qwen_image import denoiser
from antiphon.families.qwen_image.checkpoint import (
    MAX_SEQUENCE_LENGTH,
    NUM_DROPPED_TOKENS,
    TEMPLATE,
)
from tests.drawing import Stages

NAME = "qwen_image"


@pytest.fixture(scope="module")
def path(drawing_checkpoint: Callable[..., Path]) -> Path:
    return drawing_checkpoint(NAME)


@pytest.fixture
def stages(path: Path) -> Stages:
    return Stages(NAME, path)


def request(
    negative: str | None = "dogs", scale: float = 4.0, steps: int = 2, **more: Any
) -> ImageRequest:
    parameters = DiffusionParameters(num_inference_steps=steps, true_cfg_scale=scale)
    size = {"width": 64, "height": 32}
    return ImageRequest(
        **{"prompt": "a red cat", **size, **more}, negative_prompt=negative, parameters=parameters
    )


def test_tokens_are_counted_in_the_pipeline_s_template(path: Path) -> None:
    pipeline: Any = QwenImagePipeline.from_pretrained(str(path))
    assert pipeline.prompt_template_encode == TEMPLATE
    assert pipeline.prompt_template_encode_start_idx == NUM_DROPPED_TOKENS
    assert pipeline.tokenizer_max_length == MAX_SEQUENCE_LENGTH


@pytest.mark.parametrize("negatives", [(None, None), ("dogs", "many white dogs")])
@pytest.mark.parametrize("num_masked", [denoiser.MAX_MASKED_POSITIONS, 0], ids=["masked", "apart"])
def test_texts_of_different_lengths_are_stepped_together(
    stages: Stages,
    negatives: tuple[str | None, str | None],
    num_masked: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(denoiser, "MAX_MASKED_POSITIONS", num_masked)
    requests = [
        request(negatives[0], prompt="a cat"),
        request(negatives[1], prompt="a large red cat on a sofa"),
        request(negatives[0], prompt="a dog"),  # as long as the first
    ]
    alone = [stages.draw(each, seed) for seed, each in enumerate(requests)]
    states = [stages.begin(each, seed) for seed, each in enumerate(requests)]
    lengths = {state.inputs["prompt_embeds"].shape[1] for state in states}
    assert len(lengths) == 2
    stages.batched()
    for one, other in zip(alone, stages.step_all(states), strict=True):
        np.testing.assert_allclose(one.astype(int), other.astype(int), atol=1)


def test_previews_come_closer_to_the_image(stages: Stages) -> None:
    state = stages.begin(request(steps=6), 3)
    shown = []
    for _ in range(6):
        stages.denoiser.step([state])
        shown.append(stages.denoiser.preview(state).data)
    final = stages.denoiser.finish(state).data
    distances = [float(np.abs(each - final).mean()) for each in shown]
    assert distances[-1] < 1e-5, "the last estimate is the result"
    assert distances[-2] < distances[0]
    pixels = stages.decoded(state.prompt, stages.denoiser.preview(state))
    assert pixels.shape == (32, 64, 3)


def test_embeddings_are_held_exactly_by_arrays(path: Path) -> None:
    stages = Stages(NAME, path, dtype="bfloat16")
    prompt = stages.prompter.build(request(), 0)
    (embeddings,) = stages.text_encoder.generate(prompt)
    for array in embeddings.data.values():  # type: ignore[union-attr]
        assert array.dtype == np.float32
        assert torch.equal(torch.tensor(array).bfloat16().float(), torch.tensor(array))
    state = stages.denoiser.begin(prompt, embeddings)  # type: ignore[arg-type]
    assert state.latents.dtype == torch.bfloat16
