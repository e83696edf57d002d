"""OpenAI's own SDK chats with a model that writes, as its users have it."""

from typing import Any

import openai
import pytest

from tests.servers import RunningServer, wait_until

MESSAGES: list[Any] = [
    {"role": "developer", "content": "Repeat."},
    {"role": "user", "content": [{"type": "text", "text": "Grüße 😀"}]},
]
ANSWER = "You said: Grüße 😀"
HOT: dict[str, Any] = {"temperature": 2, "seed": 5, "max_completion_tokens": 30}


def test_a_whole_answer_and_its_probabilities(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="org/toy", messages=MESSAGES, temperature=0, logprobs=True, top_logprobs=3
    )
    (choice,) = answer.choices
    assert choice.message.content == ANSWER
    assert choice.finish_reason == "stop"
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    told = b"".join(bytes(each.bytes or ()) for each in choice.logprobs.content)
    assert told.decode() == ANSWER
    assert {len(each.top_logprobs) for each in choice.logprobs.content} == {3}
    assert answer.usage is not None
    assert answer.usage.total_tokens > answer.usage.completion_tokens > 0


def test_a_stream_with_its_usage(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="gpt-4o",
        messages=MESSAGES,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    *chunks, last = stream
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert last.usage is not None
    assert last.usage.completion_tokens > 0


def test_the_stream_helper_collects_what_a_whole_answer_is(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="org/toy", messages=MESSAGES, n=2, **HOT) as stream:
        streamed = stream.get_final_completion()
    whole = client.chat.completions.create(model="org/toy", messages=MESSAGES, n=2, **HOT)
    texts = [choice.message.content for choice in whole.choices]
    assert [choice.message.content for choice in streamed.choices] == texts
    assert texts[0] != texts[1]


def test_stop_strings_and_limits(client: openai.OpenAI) -> None:
    chats = client.chat.completions
    cut = chats.create(model="org/toy", messages=MESSAGES, temperature=0, stop=["üß", "😀"])
    assert cut.choices[0].message.content == "You said: Gr"
    short = chats.create(model="org/toy", messages=MESSAGES, temperature=0, max_tokens=2)
    assert short.choices[0].finish_reason == "length"


def test_leaving_a_stream_stops_the_model(guarded: RunningServer, client: openai.OpenAI) -> None:
    endless: Any = {"256": -100}
    with client.chat.completions.create(
        model="org/toy", messages=MESSAGES, stream=True, logit_bias=endless
    ) as stream:
        next(iter(stream))
    wait_until(lambda: guarded.num_open == 0)


def test_errors_are_those_of_the_sdk(client: openai.OpenAI) -> None:
    tool: Any = {"type": "function", "function": {"name": "f"}}
    with pytest.raises(openai.BadRequestError, match="tools") as wrong:
        client.chat.completions.create(model="org/toy", messages=MESSAGES, tools=[tool])
    assert wrong.value.param == "tools"
    with pytest.raises(openai.BadRequestError, match="response_format"):
        client.chat.completions.create(
            model="org/toy", messages=MESSAGES, response_format={"type": "json_object"}
        )
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="unheard", messages=MESSAGES)
