import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.errors import InvalidRequestError, ModelLoadError
from antiphon.families.qwen_image.prompt import QwenImagePrompter


@pytest.fixture(scope="module")
def prompter(drawing_checkpoint: Callable[..., Path]) -> QwenImagePrompter:
    return QwenImagePrompter(LoadContext(path=drawing_checkpoint("qwen_image")))


def test_tokens_are_those_of_the_prompts_alone(prompter: QwenImagePrompter) -> None:
    prompt = prompter.build(ImageRequest("xyz", negative_prompt="uv"), 1)
    assert prompt.num_tokens == 5, "a byte each"
    assert pickle.loads(pickle.dumps(prompt)) == prompt


def test_a_prompt_may_fill_the_text_encoder_and_no_more(prompter: QwenImagePrompter) -> None:
    most = prompter.capabilities.max_prompt_tokens
    assert most is not None
    assert prompter.build(ImageRequest("x" * most), 1).num_tokens == most
    with pytest.raises(InvalidRequestError, match=str(most)) as refused:
        prompter.build(ImageRequest("x" * (most + 1)), 1)
    assert refused.value.param == "prompt"


def test_one_step_is_refused(prompter: QwenImagePrompter) -> None:
    """A schedule that is stretched between its first and last level divides by their distance."""
    request = ImageRequest("a cat", parameters=DiffusionParameters(num_inference_steps=1))
    with pytest.raises(InvalidRequestError, match="At least 2") as refused:
        prompter.build(request, 1)
    assert refused.value.param == "num_inference_steps"


def test_a_checkpoint_without_a_tokenizer_is_refused(
    drawing_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    whole = drawing_checkpoint("qwen_image")
    for each in whole.iterdir():
        if each.name != "tokenizer":
            (tmp_path / each.name).symlink_to(each)
    with pytest.raises(ModelLoadError, match="tokenizer"):
        QwenImagePrompter(LoadContext(path=tmp_path))
