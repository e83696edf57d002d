"""Prompts of ids, and the tokens that a runner makes of them."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.plan import Start
from antiphon.models.base import Prompt
from antiphon.models.cosyvoice3.request import CosyVoice3Prompt
from antiphon.models.cosyvoice3.runner import CosyVoice3Runner
from antiphon.types import Sampling
from tests.engine.drive import Drive

START, TURN, FIRST_TEXT = 6561, 6563, 6761
DRAWN = Sampling(temperature=1.0, top_k=25, top_p=0.8, repetition_penalty=1.0)
GREEDY = Sampling(temperature=0.0, top_k=25, top_p=0.8, repetition_penalty=1.0)


def prompt_of(
    text: Sequence[int], *, sampling: Sampling = DRAWN, seed: int = 0, min_frames: int = 0
) -> Prompt:
    ids = (START, *(FIRST_TEXT + each for each in text), TURN)
    return Prompt(
        data=CosyVoice3Prompt(ids, min_frames),
        num_tokens=len(text),
        seed=seed,
        sampling=sampling,
        num_positions=len(ids) - 1,
        position_keys=ids[:-1],
    )


def tokens_of(
    runner: CosyVoice3Runner,
    prompts: Mapping[int, Prompt],
    max_frames: int,
    made: Sequence[int] = (),
) -> dict[int, list[int]]:
    """Make tokens by slot, together, after those that are ``made``, until all slots are done."""
    drive = Drive(runner, piece_positions=16)
    before: tuple[NDArray[np.int64], ...] = tuple(np.array([each]) for each in made)
    tokens = {slot: [*made] for slot in prompts}
    starts = tuple(Start(slot, each, before) for slot, each in prompts.items())
    waiting = set(prompts)
    while waiting:
        output = drive.step(sorted(waiting), starts=starts)
        starts = ()
        assert not output.faults
        for slot, frame in output.frames.items():
            tokens[slot].append(int(frame[0]))
        waiting -= output.stopped | output.lengths
        waiting -= {slot for slot in waiting if len(tokens[slot]) == max_frames}
    drive.step(releases=tuple(prompts))
    return tokens
