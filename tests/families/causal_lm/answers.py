"""Conversations, and the answers to them that a runner writes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.token_frame import FRAME_SIZE
from antiphon.engine.plan import Start
from antiphon.families.causal_lm.language_model import CausalLMRunner
from antiphon.families.causal_lm.prompt import CausalLMPrompt, CausalLMPrompter
from tests.engine.drive import Drive

GREEDY = ChatSampling(temperature=0.0, repetition_penalty=1.0)


def ask(*texts: str, **more: Any) -> ChatRequest:
    """Ask the first text; the following ones are answers and questions in turn."""
    roles: Any = ("user", "assistant")
    messages = tuple(Message(roles[index % 2], text) for index, text in enumerate(texts))
    return ChatRequest(messages, **more)


def greedy(prompter: CausalLMPrompter, *texts: str, max_tokens: int = 40) -> Prompt:
    return prompter.build(ask(*texts, sampling=GREEDY, max_tokens=max_tokens), 0)


def ids_of(prompt: Prompt) -> tuple[int, ...]:
    assert isinstance(prompt.data, CausalLMPrompt)
    return prompt.data.ids


def frame_of(token: int) -> NDArray[np.int64]:
    """Return a frame that was made elsewhere."""
    frame = np.full(FRAME_SIZE, -1, np.int64)
    frame[0] = token
    return frame


def frames_of(
    runner: CausalLMRunner,
    prompts: Mapping[int, Prompt],
    made: Mapping[int, Sequence[int]] | None = None,
    piece_positions: int = 16,
) -> dict[int, list[NDArray[np.int64]]]:
    """Write the answers to prompts by slot, together, after the tokens that are ``made``."""
    made = made or {}
    drive = Drive(runner, piece_positions=piece_positions)
    frames = {slot: [frame_of(token) for token in made.get(slot, ())] for slot in prompts}
    starts = tuple(Start(slot, each, tuple(frames[slot])) for slot, each in prompts.items())
    waiting = set(prompts)
    while waiting:
        output = drive.step(sorted(waiting), starts=starts)
        starts = ()
        assert not drive.faults
        for slot, frame in output.frames.items():
            frames[slot].append(frame)
        waiting -= output.stopped | output.lengths
        limits = {slot: prompts[slot].sampling.max_frames for slot in waiting}
        waiting -= {slot for slot, most in limits.items() if len(frames[slot]) == most}
    drive.step(releases=tuple(prompts))
    return frames


def answers(
    runner: CausalLMRunner,
    prompts: Mapping[int, Prompt],
    made: Mapping[int, Sequence[int]] | None = None,
) -> dict[int, list[int]]:
    """Return the tokens of `frames_of`."""
    frames = frames_of(runner, prompts, made)
    return {slot: [int(frame[0]) for frame in each] for slot, each in frames.items()}
