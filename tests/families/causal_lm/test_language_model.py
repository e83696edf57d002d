"""Greedy answers against transformers, and what the engine promises beyond it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.contracts.chat_types import ChatSampling
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.token_frame import TokenFrame
from antiphon.families.causal_lm.language_model import CausalLMRunner, load_runner
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from antiphon.families.causal_lm.sizes import TASKS
from tests.engine.drive import generate, tokens_of
from tests.families.causal_lm.answers import DRAWN, GREEDY, ask, greedy, ids_of
from tests.families.causal_lm.official import official_thinker

MAX_TOKENS = 24
ENDS = [258, 256]
QUESTIONS = [f"Question {number}: " + "why? " * (number % 7) for number in range(50)]


def official_of(path: Path, layout: str) -> Any:
    if layout in ("omni", "omni_voice", "thinker"):
        return official_thinker(path)
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path, dtype="float32")


def official_answer(official: Any, ids: tuple[int, ...]) -> list[int]:
    """Return what transformers generates, without the token that ends it."""
    read = torch.tensor([ids])
    made = official.generate(
        input_ids=read,
        attention_mask=torch.ones_like(read),
        max_new_tokens=MAX_TOKENS,
        do_sample=False,
        repetition_penalty=1.0,
        eos_token_id=ENDS,
        pad_token_id=256,
    )
    answer: list[int] = made[0, len(ids) :].tolist()
    return answer[:-1] if answer[-1] in ENDS else answer


def likeliest(official: Any, ids: tuple[int, ...], answer: list[int]) -> list[int]:
    """Return what transformers finds likeliest after the prompt and each token of an answer.

    A greedy answer that equals these tokens is the one that it generates, from one pass.
    """
    with torch.inference_mode():
        logits = official(input_ids=torch.tensor([[*ids, *answer]])).logits[0, len(ids) - 1 :]
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    return tokens


def made_by_all(path: Path, questions: list[str]) -> tuple[dict[int, Prompt], list[list[int]]]:
    """Return prompts and their greedy answers, which are those of each way to compute them."""
    context = LoadContext(path=path, device="cpu", dtype="float32", max_slots=len(questions))
    prompter = CausalLMPrompter(context)
    prompts = dict(enumerate(greedy(prompter, each, max_tokens=MAX_TOKENS) for each in questions))
    found = []
    for is_batched in (False, True):
        runner = load_runner(context, is_batched=is_batched)
        found.append([*tokens_of(runner, prompts).values()])
        assert tokens_of(runner, {1: prompts[0]})[1] == found[-1][0], "alone"
    made, batched = found
    assert made == batched
    assert len({token for each in made for token in each}) > 20, "there is not much to compare"
    return prompts, made


@pytest.mark.parametrize("layout", TASKS)
def test_greedy_answers_are_those_that_transformers_generates(
    checkpoint_of: Callable[[str], Path], layout: str
) -> None:
    path = checkpoint_of(layout)
    official = official_of(path, layout)
    prompts, made = made_by_all(path, QUESTIONS[:4])
    assert made == [official_answer(official, ids_of(each)) for each in prompts.values()]


@pytest.mark.slow  # fifty answers of each runner
@pytest.mark.parametrize("layout", TASKS)
def test_greedy_answers_to_fifty_questions(
    checkpoint_of: Callable[[str], Path], layout: str
) -> None:
    path = checkpoint_of(layout)
    official = official_of(path, layout)
    prompts, made = made_by_all(path, QUESTIONS)
    for prompt, answer in zip(prompts.values(), made, strict=True):
        *tokens, following = likeliest(official, ids_of(prompt), answer)
        assert tokens == answer
        assert len(answer) == MAX_TOKENS or following in ENDS


def test_logprobs_are_those_of_the_raw_distribution(
    checkpoint: Path, prompter: CausalLMPrompter, runner: CausalLMRunner
) -> None:
    prompt = prompter.build(ask("Hello", sampling=DRAWN, max_tokens=12, num_logprobs=3), 5)
    frames = [TokenFrame.of(frame) for frame in generate(runner, {0: prompt})[0].frames]
    ids, tokens = ids_of(prompt), [frame.token for frame in frames]
    official = official_of(checkpoint, "qwen3")
    with torch.inference_mode():
        logits = official(input_ids=torch.tensor([[*ids, *tokens]])).logits[0, len(ids) - 1 : -1]
    wanted = logits.log_softmax(-1)
    best = wanted.topk(3)
    for frame, row, top, values in zip(frames, wanted, best.indices, best.values, strict=True):
        assert frame.logprob == pytest.approx(float(row[frame.token]), abs=1e-4)
        assert frame.top_tokens[:4].tolist() == [*top.tolist(), -1]
        np.testing.assert_allclose(frame.top_logprobs[:3], values, atol=1e-4)
        assert np.isnan(frame.top_logprobs[3:]).all()


def test_without_logprobs_a_frame_tells_none(
    prompter: CausalLMPrompter, runner: CausalLMRunner
) -> None:
    told = prompter.build(ask("Hello", sampling=GREEDY, max_tokens=3, num_logprobs=0), 5)
    made = generate(runner, {0: greedy(prompter, "Hi", max_tokens=3), 1: told})
    silent, only = (TokenFrame.of(made[slot].frames[0]) for slot in (0, 1))
    assert np.isnan(silent.logprob)
    assert only.logprob < 0
    for frame in (silent, only):
        assert (frame.top_tokens == -1).all()


def test_a_bias_decides_and_an_end_token_ends(
    prompter: CausalLMPrompter, runner: CausalLMRunner
) -> None:
    def biased(token: int) -> list[int]:
        sampling = replace(GREEDY, logit_bias={token: 1000.0})
        prompt = prompter.build(ask("Hello", sampling=sampling, max_tokens=5), 5)
        return tokens_of(runner, {0: prompt})[0]

    assert biased(65) == [65] * 5
    assert biased(258) == []


def test_penalties_are_those_of_transformers(
    checkpoint: Path, prompter: CausalLMPrompter, runner: CausalLMRunner
) -> None:
    sampling = ChatSampling(temperature=0.0, repetition_penalty=1.7)
    prompt = prompter.build(ask("Hello", sampling=sampling, max_tokens=30), 5)
    official, ids = official_of(checkpoint, "qwen3"), torch.tensor([ids_of(prompt)])
    made = official.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=30,
        do_sample=False,
        repetition_penalty=1.7,
    )
    assert tokens_of(runner, {0: prompt})[0] == made[0, ids.shape[1] :].tolist()


def test_blocks_of_an_earlier_turn_can_be_shared(prompter: CausalLMPrompter) -> None:
    first = greedy(prompter, "Hello, how are you today?")
    second = greedy(prompter, "Hello, how are you today?", "Fine.", "And now?")
    assert first.num_positions == len(first.position_keys) == len(ids_of(first)) - 1
    num_equal = len(first.position_keys)
    assert second.position_keys[:num_equal] == first.position_keys
