"""Conversations, and the answers to them that a runner writes."""

from pathlib import Path
from typing import Any

from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.families.causal_lm.language_model import load_runner
from antiphon.families.causal_lm.prompt import CausalLMPrompt, CausalLMPrompter
from tests.families.language_models import LanguageModel

GREEDY = ChatSampling(temperature=0.0, repetition_penalty=1.0)
DRAWN = ChatSampling(
    temperature=1.3, top_p=0.9, top_k=50, repetition_penalty=1.2, presence_penalty=0.4,
    frequency_penalty=0.3, min_p=0.01, logit_bias={65: 2.0, 66: -3.0},
)  # fmt: skip


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


def _prompts(path: Path) -> dict[int, Prompt]:
    prompter = CausalLMPrompter(LoadContext(path))
    wild = ChatSampling(temperature=2.0, top_p=1.0, top_k=0, repetition_penalty=1.0)
    return {
        2: prompter.build(ask("Hello", sampling=DRAWN, max_tokens=60, num_logprobs=2), 5),
        1: prompter.build(ask("Who is there", sampling=wild, max_tokens=30), 6),
        0: greedy(prompter, "Hi"),
    }


# Log probabilities follow the token.
LANGUAGE_MODEL = LanguageModel(load_runner, _prompts, num_batch_codes=1, num_int8_scores=1)
