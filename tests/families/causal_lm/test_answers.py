"""Answers through the whole pipeline: streams, cancelling, repeating; and a real model's."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from antiphon.config import ModelSettings
from antiphon.config.chat import ChatSettings
from antiphon.contracts.chat_types import ChatEvent, ChatRequest, ChatSampling, TextDelta
from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Ended
from antiphon.families.causal_lm.language_model import load_runner
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from antiphon.pipeline.chat.service import CHAT, ChatModel, Chats
from tests.engine.drive import tokens_of
from tests.families.causal_lm.answers import ask, greedy, ids_of
from tests.families.causal_lm.downloads import published_smollm2
from tests.loops import until

T = TypeVar("T")
WILD = ChatSampling(temperature=1.5, top_k=0, top_p=1.0)


@asynccontextmanager
async def loaded(path: Path) -> AsyncGenerator[Chats, None]:
    settings = ModelSettings(source=str(path), device="cpu", max_slots=4)
    model = await ChatModel.load(settings, CHAT)
    chats = Chats({model.name: model}, ChatSettings())
    try:
        yield chats
    finally:
        assert model.fabric.num_open == 0
        chats.close()
        await model.close()


async def events_of(chats: Chats, request: ChatRequest) -> list[ChatEvent]:
    return [event async for event in chats.stream(request)]


def text_of(events: list[ChatEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_streams_repeat_by_their_seeds_alone_and_together(checkpoint: Path) -> None:
    request = ask("Hello", sampling=WILD, max_tokens=40, seed=3)
    async with loaded(checkpoint) as chats:
        alone = await events_of(chats, request)
        others = [replace(request, id=f"other {seed}", seed=seed) for seed in (3, 4, 5)]
        same, *different = await asyncio.gather(*(events_of(chats, each) for each in others))
        assert text_of(same) == text_of(alone)
        assert all(text_of(each) != text_of(alone) for each in different)
        ended = alone[-1]
        assert isinstance(ended, Ended)
        assert ended.reason in ("stop", "length")
        assert ended.usage.output_tokens <= 40


async def test_closing_a_stream_frees_what_it_held(checkpoint: Path) -> None:
    async with loaded(checkpoint) as chats:
        async with aclosing(chats.stream(ask("Hello", sampling=WILD, seed=1))) as events:
            await anext(events)
        (model,) = chats.models.values()
        await until(lambda: not model.fabric.num_open)
        assert text_of(await events_of(chats, ask("Hi", max_tokens=4, seed=1)))


@pytest.mark.slow  # weights of 135 million numbers, converted once
def test_a_real_model_answers_as_in_transformers() -> None:
    from transformers import AutoModelForCausalLM

    path = published_smollm2()
    context = LoadContext(path=path, device="cpu", dtype="float32", max_slots=2)
    prompter, runner = CausalLMPrompter(context), load_runner(context)
    prompts = {
        slot: greedy(prompter, text, max_tokens=24)
        for slot, text in enumerate(("What is the capital of France?", "Count from one to ten."))
    }
    written = tokens_of(runner, prompts)
    official: Any = AutoModelForCausalLM.from_pretrained(path, dtype="float32")
    for slot, prompt in prompts.items():
        ids = torch.tensor([ids_of(prompt)])
        mask = torch.ones_like(ids)
        made = official.generate(ids, attention_mask=mask, max_new_tokens=24, do_sample=False)
        wanted = [token for token in made[0, ids.shape[1] :].tolist() if token != 2]
        assert written[slot] == wanted
    decoder = prompter.detokenizer()
    assert "Paris" in "".join(map(decoder.push, written[0]))
