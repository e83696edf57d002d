"""POST /v1/chat/completions of a model that writes: OpenAI's contract, whole and streamed."""

import json
from typing import Any

import httpx
import pytest

from tests.decoding import error_of
from tests.servers import RunningServer, wait_until

URL = "/v1/chat/completions"
SAID = "Hé €😀 you"
ANSWER = f"You said: {SAID}"
GREEDY: dict[str, Any] = {"temperature": 0}


def asked(client: httpx.Client, said: Any = SAID, **members: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": said}], **GREEDY, **members}
    return client.post(URL, json=body)


def answered(client: httpx.Client, said: Any = SAID, **members: Any) -> dict[str, Any]:
    response = asked(client, said, **members)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def text(client: httpx.Client, said: Any = SAID, **members: Any) -> str:
    (choice,) = answered(client, said, **members)["choices"]
    content: str = choice["message"]["content"]
    return content


def streamed(client: httpx.Client, **members: Any) -> list[dict[str, Any]]:
    response = asked(client, stream=True, **members)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    events = response.text.strip().split("\n\n")
    assert events.pop() == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_a_whole_answer(client: httpx.Client) -> None:
    answer = answered(client, model="toy")
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "toy"
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": ANSWER, "refusal": None}
    assert choice["finish_reason"] == "stop"
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] == len(ANSWER.encode()) - len("You said: ") + 3


def test_a_stream_says_the_same(client: httpx.Client) -> None:
    *chunks, usage = streamed(client, stream_options={"include_usage": True})
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in (*chunks, usage)}) == 1
    assert all(chunk["usage"] is None for chunk in chunks)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert deltas[-1] == {}
    texts = [delta["content"] for delta in deltas[1:-1]]
    assert "".join(texts) == ANSWER
    assert "😀" in texts, "the bytes of a character come together"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-2:]] == [None, "stop"]
    assert usage["choices"] == []
    assert usage["usage"] == answered(client)["usage"]


def test_a_stream_tells_its_usage_only_if_it_is_asked(client: httpx.Client) -> None:
    assert not [chunk for chunk in streamed(client) if "usage" in chunk]


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("id: H", "You sa"),
        ([" €", "😀"], "You said: Hé"),
        ("you?", ANSWER),
        ("You", ""),
    ],
)
def test_an_answer_ends_before_a_stop_string(
    client: httpx.Client, stop: Any, expected: str
) -> None:
    (choice,) = answered(client, stop=stop)["choices"]
    assert choice["message"]["content"] == expected
    assert choice["finish_reason"] == "stop"
    texts = [
        chunk["choices"][0]["delta"].get("content", "") for chunk in streamed(client, stop=stop)
    ]
    assert "".join(texts) == expected


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_answer_has_a_length(client: httpx.Client, name: str) -> None:
    answer = answered(client, **{name: 3})
    assert answer["choices"][0]["message"]["content"] == "You said: "
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 3


def test_several_answers_have_seeds_that_follow_each_other(client: httpx.Client) -> None:
    hot: dict[str, Any] = {"temperature": 2.0, "max_tokens": 20, "logit_bias": {"256": -100}}
    answer = answered(client, n=3, seed=7, **hot)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert texts == [text(client, seed=seed, **hot) for seed in (7, 8, 9)]
    assert len(set(texts)) == 3
    assert answer["usage"]["prompt_tokens"] == answered(client)["usage"]["prompt_tokens"]
    assert answer["usage"]["completion_tokens"] == 60
    said = {0: "", 1: "", 2: ""}
    for chunk in streamed(client, n=3, seed=7, **hot):
        (choice,) = chunk["choices"]
        said[choice["index"]] += choice["delta"].get("content", "")
    assert [*said.values()] == texts


def test_probabilities_of_tokens(client: httpx.Client) -> None:
    (choice,) = answered(client, logprobs=True, top_logprobs=2)["choices"]
    told = choice["logprobs"]["content"]
    assert b"".join(bytes(each["bytes"]) for each in told).decode() == ANSWER
    assert all(each["logprob"] <= 0 for each in told)
    for each in told:
        first, second = each["top_logprobs"]
        assert first["bytes"] == each["bytes"]
        assert first["logprob"] >= second["logprob"]
    in_events = [
        each
        for chunk in streamed(client, logprobs=True, top_logprobs=2)
        for each in (chunk["choices"][0]["logprobs"] or {"content": []})["content"]
    ]
    assert in_events == told
    cut = answered(client, logprobs=True, stop="id: H")["choices"][0]["logprobs"]["content"]
    assert [each["token"] for each in cut] == ["You ", "said"]


def test_sampling_changes_what_is_drawn(client: httpx.Client) -> None:
    banned = {str(ord("H")): -100}
    assert text(client, "H", logit_bias=banned, max_tokens=4) != "You said: H"
    assert text(client, "aaaa", frequency_penalty=2, presence_penalty=2, top_k=-1).count("a") <= 6
    assert text(client, temperature=2, top_k=1) == ANSWER
    assert text(client, temperature=2, top_p=0.01) == ANSWER
    assert text(client, temperature=2, min_p=0.9) == ANSWER


def test_thoughts_come_apart_from_the_answer(client: httpx.Client) -> None:
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    (choice,) = answered(client, **thinking)["choices"]
    assert choice["message"]["content"] == text(client)
    assert choice["message"]["reasoning_content"] == "Messages: 1."
    assert "reasoning_content" not in answered(client)["choices"][0]["message"]
    deltas = [each["choices"][0]["delta"] for each in streamed(client, **thinking)]
    thought = "".join(each.get("reasoning_content", "") for each in deltas)
    written = "".join(each.get("content", "") for each in deltas)
    assert (written, thought) == (text(client), "Messages: 1.")


def test_roles_and_parts(client: httpx.Client) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert text(client, parts) == "You said: one\ntwo"
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!", "tool_calls": None, "refusal": None},
        {"role": "user", "name": "Ada", "content": "Again"},
    ]
    assert text(client, messages=messages) == "You said: Again"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"presence_penalty": -3}, "presence_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 9000}, "max_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
        ({"n": 9}, "n"),
        ({"stop": ""}, "stop"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"logit_bias": {"262": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"modalities": ["text", "smell"]}, "modalities"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"chat_template_kwargs": {"messages": "x"}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"x": {}}}, "chat_template_kwargs"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            "messages.0.content",
        ),
        ({"messages": [{"role": "user", "content": "x" * 9000}]}, "messages"),
    ],
)
def test_what_cannot_be_is_refused(client: httpx.Client, members: Any, param: str) -> None:
    for stream in (False, True):
        response = asked(client, **{"stream": stream, **members})
        assert error_of(response, 400)["param"] == param


def test_unknown_members_are_told(client: httpx.Client) -> None:
    response = asked(client, tools=[], tool_choice="none", metadata={}, mood="good")
    assert response.headers["x-ignored-fields"] == "mood"


def test_a_client_that_leaves_stops_the_model(server: RunningServer, client: httpx.Client) -> None:
    endless = {"logit_bias": {"256": -100}, "stream": True, "temperature": 0}
    body = {"messages": [{"role": "user", "content": SAID}], **endless}
    with client.stream("POST", URL, json=body) as response:
        assert response.status_code == 200
        next(response.iter_lines())
    wait_until(lambda: server.num_open == 0)


def test_models_and_metrics_tell_of_chats(client: httpx.Client) -> None:
    model = client.get("/v1/models/gpt-4o").json()
    assert model["id"] == "toy"
    assert "text-generation" in model["tasks"]
    assert model["chat"]["vocab_size"] == 262
    asked(client)
    metrics = client.get("/metrics").text
    assert 'antiphon_chat_ended_total{model="toy",reason="stop"}' in metrics
    assert 'antiphon_chat_first_token_seconds_count{model="toy"}' in metrics


def test_a_model_of_both_tasks_draws_if_it_is_told_to(client: httpx.Client) -> None:
    (choice,) = answered(client, modalities=["image"])["choices"]
    assert choice["message"]["content"][0]["type"] == "image_url"
    assert text(client, modalities=["text"]) == ANSWER
