"""Requests for images, and codes drawn for their prompts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.picture_types import ImageRequest
from antiphon.contracts.prompt import Prompt
from antiphon.engine.plan import Start
from antiphon.families.glm_image.prior import PriorRunner
from antiphon.families.glm_image.prompt import GlmImagePrompt, GlmImagePrompter
from tests.engine.drive import Drive

TEXT = "A red cat, and the words 'hello you'."


def ask(text: str = TEXT, width: int = 64, height: int = 96, **more: Any) -> ImageRequest:
    return ImageRequest(text, width=width, height=height, **more)


def greedy(
    prompter: GlmImagePrompter, text: str = TEXT, width: int = 64, height: int = 96
) -> Prompt:
    return prompter.build(ask(text, width, height, options={"prior_temperature": 0}), 0)


def data_of(prompt: Prompt) -> GlmImagePrompt:
    assert isinstance(prompt.data, GlmImagePrompt)
    return prompt.data


def drawn(
    prior: PriorRunner,
    prompts: Mapping[int, Prompt],
    made: Mapping[int, Sequence[NDArray[np.int64]]] | None = None,
) -> dict[int, list[int]]:
    """Draw all codes of prompts by slot, together; ``made`` are those drawn before."""
    made = made or {}
    drive = Drive(prior, piece_positions=16)
    codes = {slot: [int(frame[0]) for frame in made.get(slot, ())] for slot in prompts}
    starts = tuple(Start(slot, each, tuple(made.get(slot, ()))) for slot, each in prompts.items())
    waiting = set(prompts)
    while waiting:
        output = drive.step(sorted(waiting), starts=starts)
        starts = ()
        assert not drive.faults
        assert not output.stopped
        for slot, frame in output.frames.items():
            codes[slot].append(int(frame[0]))
        waiting -= output.lengths
    drive.step(releases=tuple(prompts))
    return codes
