"""Answers of text in chats, in OpenAI's shape: whole, or as server-sent events."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from antiphon.api.chat_envelope import STREAM_END, ChatEnvelope, usage_members
from antiphon.api.errors import wire_error
from antiphon.api.json_or_events import events_or_json
from antiphon.api.options import ignored_headers
from antiphon.api.schemas.chat import ChatBody
from antiphon.api.state import ServerState
from antiphon.contracts.chat_types import ChatStreams, TextDelta, TokenLogprob
from antiphon.contracts.types import Ended, FinishReason, Usage


def text_response(body: ChatBody, server: ServerState, id: str) -> Response:
    """Answer a chat with text; raises InvalidRequestError."""
    requests = body.to_domain(id, server.settings.chat.max_choices)
    headers = ignored_headers(body.ignored, server.settings.speech)
    envelope = ChatEnvelope(id, server.chats.model(body.model).name)
    tells_logprobs = requests[0].num_logprobs is not None
    answers = server.chats.several(requests)
    events = _chunks(answers, envelope, tells_usage=body.tells_usage) if body.stream else None

    async def whole() -> list[bytes]:
        choices, usage = await _whole(answers, len(requests), tells_logprobs=tells_logprobs)
        return [json.dumps(envelope.whole(choices, usage)).encode()]

    return events_or_json(events, whole, headers, first="first token", on_close=error_event)


def delta_members(delta: TextDelta, name: str) -> dict[str, str]:
    """Return the members of a delta: its text by this name, its thoughts as vLLM calls them."""
    thought = {"reasoning_content": delta.reasoning} if delta.reasoning else {}
    return {name: delta.text, **thought} if delta.text or not thought else thought


def error_event(error: Exception) -> bytes:
    """Return the event by which a stream ends that fails midway."""
    return f"data: {json.dumps(wire_error(error).body())}\n\n".encode()


@dataclass(slots=True)
class _Choice:
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    reason: FinishReason = "stop"

    def members(self, index: int, *, tells_logprobs: bool) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(self.texts), "refusal": None}
        if self.thoughts:
            message["reasoning_content"] = "".join(self.thoughts)
        return {
            "index": index,
            "message": message,
            "logprobs": {"content": self.logprobs, "refusal": None} if tells_logprobs else None,
            "finish_reason": self.reason,
        }


async def _whole(
    answers: ChatStreams, num_answers: int, *, tells_logprobs: bool
) -> tuple[list[Any], Usage]:
    """Collect answers; return their choices, and what was used. Closes ``answers``."""
    choices = [_Choice() for _ in range(num_answers)]
    usage = Usage()
    async with aclosing(answers):
        async for number, event in answers:
            choice = choices[number]
            match event:
                case TextDelta():
                    choice.texts.append(event.text)
                    choice.thoughts += [event.reasoning] if event.reasoning else []
                    choice.logprobs += _tokens(event.logprobs)
                case Ended():
                    choice.reason = event.reason
                    usage = _with(usage, event.usage)
    members = [
        choice.members(number, tells_logprobs=tells_logprobs)
        for number, choice in enumerate(choices)
    ]
    return members, usage


async def _chunks(
    answers: ChatStreams, envelope: ChatEnvelope, *, tells_usage: bool
) -> AsyncGenerator[bytes, None]:
    """Yield server-sent events: the role before an answer's first text, its text, its end."""
    more = {"usage": None} if tells_usage else {}
    begun: set[int] = set()
    usage = Usage()

    def chunk(number: int, delta: dict[str, Any], reason: str | None, logprobs: Any) -> bytes:
        choice = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return envelope.chunk([choice], more)

    async with aclosing(answers):
        async for number, event in answers:
            head = b""
            if number not in begun:
                begun.add(number)
                head = chunk(number, {"role": "assistant", "content": ""}, None, None)
            match event:
                case TextDelta():
                    tokens = _tokens(event.logprobs)
                    logprobs = {"content": tokens, "refusal": None} if tokens else None
                    yield head + chunk(number, delta_members(event, "content"), None, logprobs)
                case Ended():
                    usage = _with(usage, event.usage)
                    yield head + chunk(number, {}, event.reason, None)
    if tells_usage:
        yield envelope.chunk([], {"usage": usage_members(usage)})
    yield STREAM_END


def _with(total: Usage, usage: Usage) -> Usage:
    """Add an answer; the prompt, which all answers share, counts once."""
    return Usage(usage.input_tokens, total.output_tokens + usage.output_tokens)


def _tokens(logprobs: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
    return [
        {**_token(each), "top_logprobs": [_token(other) for other in each.top]} for each in logprobs
    ]


def _token(logprob: TokenLogprob) -> dict[str, Any]:
    return {"token": logprob.token, "logprob": logprob.logprob, "bytes": [*logprob.content]}
