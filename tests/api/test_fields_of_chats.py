"""Every field that OpenAI and vLLM have for chats is served, without effect, or refused."""

from typing import Any

import httpx
import pytest
from openai.types import chat as openai_chat
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import BaseModel

from antiphon.api.schemas.chat import (
    ChatAudio,
    ChatBody,
    ChatMessage,
    ChatPart,
    ImageAddress,
    StreamOptions,
)
from antiphon.api.schemas.chat_fields import ChatPeerFields
from antiphon.api.schemas.field_rules import field_classes
from tests.decoding import error_of

URL = "/v1/chat/completions"
VLLM = {
    *("add_generation_prompt", "add_special_tokens", "allowed_token_ids", "bad_words", "best_of"),
    *("cache_salt", "chat_template", "chat_template_kwargs", "continue_final_message", "documents"),
    *("echo", "ec_transfer_params", "guided_choice", "guided_grammar", "guided_json"),
    *("guided_regex", "ignore_eos", "include_reasoning", "include_stop_str_in_output"),
    *("kv_transfer_params", "length_penalty", "logits_processors", "media_io_kwargs", "min_p"),
    *("min_tokens", "mm_processor_kwargs", "priority", "prompt_logprobs", "reasoning_effort"),
    *("repetition_detection", "repetition_penalty", "request_id", "return_assistant_tokens_mask"),
    *("return_prompt_text", "return_token_ids", "return_token_offsets"),
    *("return_tokens_as_token_ids", "sampling_params_list", "skip_special_tokens"),
    *("spaces_between_special_tokens", "stop_token_ids", "structured_outputs"),
    *("thinking_token_budget", "top_k", "truncate_prompt_tokens", "truncation_side"),
    *("use_beam_search", "vllm_xargs"),
}
UNSERVED = [n for n, kind in field_classes(ChatPeerFields).items() if kind == "unserved"]
OFF: list[tuple[str, Any]] = [
    *(("tools", []), ("tool_choice", "auto"), ("function_call", "none"), ("verbosity", "medium")),
    *(("best_of", 1), ("use_beam_search", False), ("stop_token_ids", []), ("bad_words", [])),
    *(("include_stop_str_in_output", False), ("skip_special_tokens", True), ("echo", False)),
    *(("add_generation_prompt", True), ("continue_final_message", False), ("priority", 0)),
    *(("include_reasoning", True), ("return_token_ids", False), ("vllm_xargs", {})),
    *(("ignore_eos", False), ("min_tokens", 0), ("top_logprobs", 0), ("length_penalty", 1.0)),
    *(("reasoning_effort", "medium"), ("stop", []), ("logprobs", False), ("metadata", {})),
    *(("stream_options", {"include_usage": False, "continuous_usage_stats": False}),),
]
NESTED: list[tuple[type[BaseModel], list[Any]]] = [
    (StreamOptions, [openai_chat.ChatCompletionStreamOptionsParam]),
    (ChatAudio, [openai_chat.ChatCompletionAudioParam]),
    (
        ChatMessage,
        [
            openai_chat.ChatCompletionUserMessageParam,
            openai_chat.ChatCompletionAssistantMessageParam,
            openai_chat.ChatCompletionSystemMessageParam,
            openai_chat.ChatCompletionDeveloperMessageParam,
            openai_chat.ChatCompletionToolMessageParam,
            openai_chat.ChatCompletionFunctionMessageParam,
        ],
    ),
    (
        ChatPart,
        [
            openai_chat.ChatCompletionContentPartTextParam,
            openai_chat.ChatCompletionContentPartImageParam,
            openai_chat.ChatCompletionContentPartInputAudioParam,
            openai_chat.ChatCompletionContentPartRefusalParam,
        ],
    ),
    (ImageAddress, [openai_chat.chat_completion_content_part_image_param.ImageURL]),
]


def asked(client: httpx.Client, **members: Any) -> httpx.Response:
    messages = [{"role": "user", "content": "Hello."}]
    return client.post(URL, json={"messages": messages, "temperature": 0, **members})


def fields_of(typed: Any) -> set[str]:
    return {*typed.__required_keys__, *typed.__optional_keys__}


def test_every_field_of_others_is_known() -> None:
    openai = fields_of(CompletionCreateParamsStreaming) | fields_of(
        CompletionCreateParamsNonStreaming
    )
    assert openai | VLLM <= {*field_classes(ChatBody)}
    for model, typed in NESTED:
        for each in typed:
            assert fields_of(each) <= {*field_classes(model)}, each


@pytest.mark.parametrize("name", UNSERVED)
def test_a_field_that_would_change_the_answer_is_refused(client: httpx.Client, name: str) -> None:
    error = error_of(asked(client, **{name: "x"}), 400)
    assert (error["param"], error["code"]) == (name, "not_supported")
    assert asked(client, **{name: None}).status_code == 200


@pytest.mark.parametrize(("name", "value"), OFF)
def test_values_that_turn_a_field_off_change_nothing(
    client: httpx.Client, name: str, value: Any
) -> None:
    answer = asked(client, **{name: value})
    assert answer.status_code == 200, answer.text
    assert "x-ignored-fields" not in answer.headers
    assert answer.json()["choices"] == asked(client).json()["choices"]


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"verbosity": "low"}, "verbosity"),
        ({"truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
        ({"include_stop_str_in_output": True}, "include_stop_str_in_output"),
        ({"skip_special_tokens": False}, "skip_special_tokens"),
        ({"skip_special_tokens": 1}, "skip_special_tokens"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"store": "perhaps"}, "store"),
        ({"metadata": 5}, "metadata"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 3, "max_tokens": 2}, "min_tokens"),
        ({"stream_options": {"include_usages": True}}, "stream_options.include_usages"),
        ({"response_format": {"type": "text", "schema": {}}}, "response_format"),
        (
            {"modalities": ["text", "audio"], "audio": {"voice": "alto", "fromat": "wav"}},
            "audio.fromat",
        ),
        (
            {"modalities": ["text", "audio"], "audio": {"voice": {"id": "alto", "pitch": 1}}},
            "audio.voice.pitch",
        ),
        (
            {"messages": [{"role": "user", "content": "x", "contents": "y"}]},
            "messages.0.contents",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "txt": "y"}]}]},
            "messages.0.content.0.txt",
        ),
        (
            {"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]},
            "messages.0.tool_calls",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    client: httpx.Client, members: dict[str, Any], param: str
) -> None:
    assert error_of(asked(client, **members), 400)["param"] == param


def test_an_unknown_member_is_answered_with_the_nearest_name(client: httpx.Client) -> None:
    error = error_of(asked(client, stream_options={"include_usages": True}), 400)
    assert error["code"] == "unknown_field"
    assert error["message"].endswith("Did you mean 'include_usage'?")


def test_answers_without_an_end_have_as_many_tokens_as_were_asked_for(
    client: httpx.Client,
) -> None:
    for members in (
        {"ignore_eos": True, "max_tokens": 40},
        {"min_tokens": 40, "max_completion_tokens": 40},
        {"ignore_eos": True, "min_tokens": 10, "max_tokens": 40, "n": 2},
    ):
        answer = asked(client, **members).json()
        assert {each["finish_reason"] for each in answer["choices"]} == {"length"}
        assert answer["usage"]["completion_tokens"] == 40 * len(answer["choices"])
    stopped = asked(client, ignore_eos=True, max_tokens=40, stop="Hello").json()
    assert stopped["choices"][0]["finish_reason"] == "stop"


def test_an_answer_does_not_end_before_its_minimum_of_tokens(client: httpx.Client) -> None:
    usual = asked(client).json()["usage"]["completion_tokens"]
    for least in (1, usual, usual + 1, usual + 20):
        answer = asked(client, min_tokens=least, max_tokens=usual + 50).json()
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["completion_tokens"] == max(least, usual)
    late = asked(client, min_tokens=usual, max_tokens=usual, stop="Hello").json()
    assert late["choices"][0]["finish_reason"] == "length", "stop strings wait for it too"


def test_a_minimum_of_tokens_must_fit_the_context(client: httpx.Client) -> None:
    error = error_of(asked(client, min_tokens=1_000_000), 400)
    assert (error["param"], error["code"]) == ("min_tokens", "context_length_exceeded")


def test_no_effort_is_no_thought(client: httpx.Client) -> None:
    thinking = asked(client, enable_thinking=True).json()["choices"][0]["message"]
    assert thinking["reasoning_content"]
    for effort, more in (("none", {}), ("medium", {"enable_thinking": False})):
        message = asked(client, reasoning_effort=effort, **more).json()["choices"][0]["message"]
        assert "reasoning_content" not in message
    both = asked(client, reasoning_effort="none", enable_thinking=True)
    assert error_of(both, 400)["param"] == "reasoning_effort"
