"""What a thinker tells of an answer, and what a talker says of that."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import PositionStates, Sampling
from antiphon.engine.plan import Append, Start
from antiphon.families.causal_lm.language_model import CausalLMRunner
from antiphon.families.causal_lm.omni.prompt import TalkerPrompt
from antiphon.families.causal_lm.omni.talker import TalkerRunner
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from tests.engine.drive import Drive

GREEDY = ChatSampling(temperature=0.0, repetition_penalty=1.0)
LIKELIEST = Sampling(temperature=0.0, repetition_penalty=1.05, max_frames=40)


def asked(prompter: CausalLMPrompter, text: str, max_tokens: int = 20) -> Prompt:
    message = Message("user", text)
    request = ChatRequest((message,), max_tokens=max_tokens, sampling=GREEDY, is_spoken=True)
    return prompter.build(request, 0)


def told_of(runner: CausalLMRunner, prompt: Prompt) -> tuple[list[int], list[PositionStates]]:
    """Write an answer; return its tokens and what is told of it."""
    drive = Drive(runner, piece_positions=16)
    starts: tuple[Start, ...] = (Start(0, prompt),)
    tokens, told = [], []
    for _ in range(prompt.sampling.max_frames or 0):
        output = drive.step([0], starts=starts)
        starts = ()
        told.append(output.hidden_states[0])
        if 0 in output.stopped:
            break
        tokens.append(int(output.frames[0][0]))
    drive.step(releases=[0])
    return tokens, told


def said(
    runner: TalkerRunner,
    told: Sequence[PositionStates],
    sampling: Sampling = LIKELIEST,
    *,
    made: Sequence[int] = (),
    slot: int = 0,
    states_ahead: int = 1000,
    seed: int = 5,
) -> list[int]:
    """Say an answer whose states arrive while it is spoken; return the codes."""
    first, *replies = told
    prompt = Prompt(
        data=TalkerPrompt(first.states, "Ethan"),
        num_tokens=len(first.states),
        seed=seed,
        sampling=sampling,
        num_frames_allowed=0,
        num_positions=len(first.states) + 1,
    )
    pieces = [
        *(
            Piece(data=each.states, num_frames_allowed=number + 1)
            for number, each in enumerate(replies)
        ),
        Piece(data=None, num_frames_allowed=None),
    ]
    codes = list(made)
    frames: tuple[NDArray[np.int64], ...] = tuple(np.array([code]) for code in made)
    drive = Drive(runner)
    starts: tuple[Start, ...] = (Start(slot, prompt, frames),)
    assert sampling.max_frames is not None
    num_given = 0
    while len(codes) < sampling.max_frames:
        given = pieces[num_given : len(codes) + 1 + states_ahead]
        num_given += len(given)
        appends = [Append(slot, each) for each in given]
        output = drive.step([slot], starts=starts, appends=appends)
        starts = ()
        assert not drive.faults
        if slot in output.stopped:
            break
        codes.append(int(output.frames[slot][0]))
    drive.step(releases=[slot])
    return codes
