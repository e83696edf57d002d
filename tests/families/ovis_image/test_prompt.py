from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import ImageRequest
from antiphon.errors import InvalidRequestError
from antiphon.families.ovis_image.prompt import OvisImagePrompter
from antiphon.families.ovis_image.stages import OvisImageTextEncoder


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
