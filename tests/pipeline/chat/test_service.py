"""Answers without a server: whole equals streamed, and a stop string frees what the model held."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import pytest

from antiphon.config import ModelSettings
from antiphon.config.chat import ChatSettings
from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message, TextDelta
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Ended
from antiphon.errors import InvalidRequestError, OverloadedError
from antiphon.pipeline.chat.service import CHAT, ChatModel, Chats, collect_answer
from tests.loops import until

TOY = ModelSettings(source="toy")
GREEDY = ChatSampling(temperature=0.0)


def request(text: str = "Hello", **fields: object) -> ChatRequest:
    return ChatRequest((Message("user", text),), **{"sampling": GREEDY, **fields})  # type: ignore[arg-type]


@asynccontextmanager
async def opened(settings: ModelSettings = TOY) -> AsyncGenerator[tuple[Chats, ChatModel], None]:
    model = await ChatModel.load(settings, CHAT)
    chats = Chats({model.name: model}, ChatSettings(max_input_characters=100))
    try:
        yield chats, model
    finally:
        chats.close()
        await model.close()


async def test_a_stream_collected_is_the_whole() -> None:
    async with opened() as (chats, _):
        events = [event async for event in chats.stream(request())]
        *deltas, ended = events
        texts = [each.text for each in deltas if isinstance(each, TextDelta)]
        assert len(texts) == len(deltas) > 1
        answer = await collect_answer(chats.stream(request()))
        assert answer.text == "".join(texts) == "You said: Hello"
        assert isinstance(ended, Ended)
        assert (answer.finish_reason, answer.usage) == (ended.reason, ended.usage)


async def test_a_stop_string_and_a_reader_that_leaves_free_the_model() -> None:
    async with opened() as (chats, model):
        endless = ChatSampling(temperature=0.0, logit_bias={256: -100.0})
        answer = await collect_answer(chats.stream(request(stop=("ll",), sampling=endless)))
        assert (answer.text, answer.finish_reason) == ("You said: He", "stop")
        left = chats.stream(request(sampling=endless))
        await anext(left)
        await left.aclose()
        await until(lambda: not model.status.num_open)
        value = chats.metrics.registry.get_sample_value
        assert value("antiphon_chat_ended_total", {"model": "toy", "reason": "stop"}) == 1
        assert value("antiphon_chat_ended_total", {"model": "toy", "reason": "abort"}) == 1
        assert value("antiphon_chat_active", {"model": "toy"}) == 0
        vllm = {"model_name": "toy", "engine": "chat"}
        assert value("vllm:time_to_first_token_seconds_count", vllm) == 2
        assert value("vllm:request_success_total", {**vllm, "finished_reason": "stop"}) == 1
        assert value("vllm:request_generation_tokens_sum", vllm) == answer.usage.output_tokens


@pytest.mark.parametrize("max_waiting", [0, 1])
async def test_several_are_refused_before_the_first_has_begun(
    max_waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one's prompt is built while the first one is answered, which has no end."""
    endless = ChatSampling(temperature=0.0, logit_bias={256: -100.0})
    small = ModelSettings(source="toy", max_slots=1, max_waiting=max_waiting)
    async with opened(small) as (chats, model):
        build = model.prompter.build

        def late(asked: ChatRequest, seed: int) -> Prompt:
            if seed:
                time.sleep(0.05)  # in which the first one's text would come
            return build(asked, seed)

        monkeypatch.setattr(model.prompter, "build", late)
        requests = [request(seed=seed, sampling=endless) for seed in (0, 1)]
        async with aclosing(chats.several(requests)) as events:
            if max_waiting:
                assert isinstance((await anext(events))[1], TextDelta)
            else:
                with pytest.raises(OverloadedError):
                    await anext(events)
        await until(lambda: not model.status.num_open)


async def test_each_of_several_is_what_it_is_alone() -> None:
    async with opened() as (chats, _):
        requests = [request(), request("Hi"), request()]
        events = [each async for each in chats.several(requests)]
        for number, each in enumerate(requests):
            alone = [event async for event in chats.stream(each)]
            assert [event for index, event in events if index == number] == alone


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        (ChatRequest(()), "messages"),
        (request("x" * 101), "messages"),
        (request("\ud800"), "messages"),
        (request(max_tokens=0), "max_tokens"),
        (request(sampling=ChatSampling(temperature=float("nan"))), "temperature"),
        (request(sampling=ChatSampling(logit_bias={0: float("nan")})), "logit_bias"),
        (request(num_logprobs=-1), "top_logprobs"),
    ],
)
async def test_what_cannot_be_is_refused_before_any_work(wrong: ChatRequest, param: str) -> None:
    async with opened() as (chats, model):
        with pytest.raises(InvalidRequestError) as refused:
            chats.stream(wrong)
        assert refused.value.param == param
        assert model.status.num_open == 0
