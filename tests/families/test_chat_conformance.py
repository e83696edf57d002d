"""What every family that chats owes its users, on each: exact, repeatable, cleanly cancelled."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest

from antiphon.config import ModelSettings
from antiphon.config.chat import ChatSettings
from antiphon.contracts.chat_types import (
    ChatAnswer,
    ChatEvent,
    ChatRequest,
    ChatSampling,
    Message,
    TextDelta,
)
from antiphon.contracts.types import Ended
from antiphon.errors import InvalidRequestError
from antiphon.families.registry import families
from antiphon.pipeline.chat.service import CHAT, ChatModel, Chats, collect_answer
from tests.families.whole_checkpoints import maker_of
from tests.loops import until

T = TypeVar("T")
CHATTING = {family.name: family for family in families() if CHAT in family.tasks}
LAYOUTS: dict[str, Callable[[Path], None]] = {
    f"{name}-{layout}": make
    for name in CHATTING
    if (Path(__file__).parent / name / "layouts.py").exists()
    for layout, make in import_module(f"tests.families.{name}.layouts").LAYOUTS.items()
}
NAMES: list[Any] = [
    *CHATTING,
    *(pytest.param(name, marks=pytest.mark.slow) for name in LAYOUTS),  # one of each is enough
]
WILD = ChatSampling(temperature=1.3, top_k=0, top_p=1.0, min_p=0.0)
GREEDY = ChatSampling(temperature=0.0, repetition_penalty=1.0)
MAX_TOKENS = 24
QUESTION = "Wörter 😀, and words."


@dataclass(frozen=True)
class Served:
    """A family's model; ready if it needs no checkpoint."""

    chats: Chats
    is_ready: bool

    @property
    def model(self) -> ChatModel:
        return self.chats.model(None)

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        return await collect_answer(self.chats.stream(request))

    async def together(self, requests: Iterable[ChatRequest]) -> list[ChatAnswer]:
        return await asyncio.gather(*map(self.answer, requests))


@pytest.fixture(scope="module", params=NAMES)
async def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Served, None]:
    name: str = request.param
    source = name
    if name in LAYOUTS:
        source = str(tmp_path_factory.mktemp(name))
        LAYOUTS[name](Path(source))
    elif CHATTING[name].needs_checkpoint:
        source = str(tmp_path_factory.mktemp(name))
        maker_of(name)(Path(source), size="tiny")
    model = await ChatModel.load(ModelSettings(source=source, device="cpu", max_slots=8), CHAT)
    chats = Chats({model.name: model}, ChatSettings())
    yield Served(chats, source == name)
    chats.close()
    await model.close()


@pytest.fixture
async def served(loaded: Served) -> AsyncGenerator[Served, None]:
    """A model of which nothing is left of a test's requests afterwards."""
    yield loaded
    while loaded.model.fabric.num_open:  # what has been left is free in a moment
        await asyncio.sleep(0.005)


def ask(text: str = QUESTION, **more: Any) -> ChatRequest:
    members = {"sampling": WILD, "max_tokens": MAX_TOKENS, "seed": 1, **more}
    return ChatRequest((Message("user", text),), **members)


async def events_of(chats: Chats, request: ChatRequest) -> list[ChatEvent]:
    return [event async for event in chats.stream(request)]


async def test_a_stream_is_text_then_one_end_and_its_whole_is_the_same(served: Served) -> None:
    *deltas, ended = await events_of(served.chats, ask())
    assert all(isinstance(each, TextDelta) and each.text for each in deltas)
    assert isinstance(ended, Ended)
    assert ended.reason in ("stop", "length")
    assert 0 < ended.usage.output_tokens <= MAX_TOKENS
    assert ended.usage.input_tokens > 0
    whole = await served.answer(ask())
    assert whole.text == "".join(each.text for each in deltas if isinstance(each, TextDelta))
    assert (whole.finish_reason, whole.usage) == (ended.reason, ended.usage)
    offline = await served.answer(ask(is_live=False))
    assert (offline.text, offline.usage) == (whole.text, whole.usage)


async def test_a_seed_repeats_and_others_differ(served: Served) -> None:
    texts = [(await served.answer(ask(seed=seed, max_tokens=10))).text for seed in (1, 1, 2, 3, 4)]
    assert texts[0] == texts[1]
    assert len({*texts}) > 1


async def test_an_answer_is_the_same_alone_and_in_a_crowd(served: Served) -> None:
    requests = [ask(f"{n} " * (n + 1), seed=n, max_tokens=8) for n in range(5)]
    crowd = await served.together(requests)
    for request, answer in zip(requests, crowd, strict=True):
        alone = await served.answer(replace(request, id=f"{request.id} alone"))
        assert (alone.text, alone.usage) == (answer.text, answer.usage)


async def test_leaving_early_frees_everything(served: Served) -> None:
    long = ask(max_tokens=200)
    for _ in range(3):
        async with aclosing(served.chats.stream(long)) as events:
            await anext(events)
    task = asyncio.create_task(served.answer(long))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.wait([task])
    await until(lambda: not served.model.fabric.num_open)
    assert (await served.answer(ask())).usage.output_tokens > 0


async def test_an_answer_ends_before_a_stop_string_wherever_its_tokens_end(served: Served) -> None:
    for seed in range(50):
        request = ask(seed=seed)
        whole = (await served.answer(request)).text
        if len(whole) > 12:
            break
    for begin, length in ((1, 1), (2, 3), (len(whole) // 2, 2)):
        stop = whole[begin : begin + length]
        cut = await served.answer(replace(request, stop=("never said", stop)))
        assert cut.text == whole[: whole.find(stop)]
        assert cut.finish_reason == "stop"


async def test_a_limit_is_kept_and_told(served: Served) -> None:
    answer = await served.answer(ask(sampling=GREEDY, max_tokens=2))
    assert (answer.finish_reason, answer.usage.output_tokens) == ("length", 2)


async def test_an_answer_whose_end_is_ignored_has_as_many_tokens_as_its_limit(
    served: Served,
) -> None:
    limit, least = (60, 40) if served.is_ready else (16, 10)
    requests = [ask(seed=seed, max_tokens=limit, ignore_eos=True) for seed in range(3)]
    crowd = await served.together(requests)
    assert {(each.finish_reason, each.usage.output_tokens) for each in crowd} == {("length", limit)}
    alone = await served.answer(replace(requests[2], id="alone"))
    assert alone.text == crowd[2].text
    for seed in range(3):
        later = ask(seed=seed, max_tokens=limit, min_tokens=least)
        assert (await served.answer(later)).usage.output_tokens >= least


async def test_probabilities_are_those_of_the_tokens_of_the_text(served: Served) -> None:
    if not served.model.capabilities.logprobs:
        with pytest.raises(InvalidRequestError) as caught:
            await served.answer(ask(num_logprobs=3))
        assert caught.value.param == "logprobs"
        return
    answer = await served.answer(ask(sampling=GREEDY, num_logprobs=3))
    assert len(answer.logprobs) == answer.usage.output_tokens
    control = b"<|"  # tokens that are no text
    told = [each.content for each in answer.logprobs if not each.content.startswith(control)]
    assert b"".join(told).decode(errors="replace") == answer.text
    for each in answer.logprobs:
        assert math.isfinite(each.logprob)
        assert each.logprob <= 0
        assert len(each.top) == 3
        logprobs = [other.logprob for other in each.top]
        assert logprobs == sorted(logprobs, reverse=True)
        assert each.logprob == logprobs[0], "the likeliest is taken"
        assert sum(math.exp(other) for other in logprobs) < 1 + 1e-4
    assert (await served.answer(ask(sampling=GREEDY))).logprobs == ()


async def test_what_is_declared_is_complete(served: Served) -> None:
    capabilities = served.model.capabilities
    sampling = capabilities.sampling
    assert None not in [getattr(sampling, each.name) for each in fields(sampling)]
    assert capabilities.vocab_size > 0
    assert (
        await served.answer(replace(capabilities.sample_request, seed=1))
    ).usage.output_tokens > 0
    with pytest.raises(InvalidRequestError) as caught:
        await served.answer(ask("x " * capabilities.max_positions))
    assert (caught.value.param, caught.value.code) == ("messages", "context_length_exceeded")


async def test_a_bias_against_all_but_one_token_is_kept(served: Served) -> None:
    first = await served.answer(ask(sampling=GREEDY, max_tokens=1))
    biased = replace(WILD, logit_bias={number: 100.0 for number in range(65, 66)})
    answer = await served.answer(ask(sampling=biased, max_tokens=4))
    assert answer.usage.output_tokens == 4
    assert answer.text == answer.text[:1] * 4, "a token is a letter, always the same"
    assert answer.text[:1] not in ("", first.text[:1])
