"""Benchmark of a chat model's stage without HTTP: conversations that all begin at once."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from antiphon.config import ModelSettings
from antiphon.contracts.chat_types import ChatRequest, Message
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import FrameReady, new_request_id
from antiphon.errors import EngineError
from antiphon.pipeline.chat.service import CHAT, ChatModel
from antiphon.stages.base import StageRequest
from antiphon_bench.engine import UNBOUNDED, bound_of
from antiphon_bench.host import HostTime, host_seconds, host_times
from antiphon_bench.machine import provenance
from antiphon_bench.summary import Percentiles

QUESTION = "What did the harbour look like on the evening before the storm? Leave nothing out."
_WARM_UP_TOKENS = 32
_RESTART_SEED = 1_000_003


@dataclass(frozen=True, slots=True)
class ChatLoad:
    """One measurement to be made.

    Attributes:
        concurrency: conversations at the same time.
        question: first message of each conversation, after a number of its own, which prevents hits
            in the prefix cache.
    """

    concurrency: int
    num_tokens: int
    question: str = QUESTION


@dataclass(slots=True)
class AnswerTimes:
    """When the tokens of an answer came; seconds of `time.perf_counter`."""

    num_prompt_tokens: int
    started_s: float
    arrivals_s: list[float] = field(default_factory=list)
    num_restarts: int = 0


@dataclass(frozen=True, slots=True)
class ChatResult:
    """Result of a measurement.

    Attributes:
        concurrency: conversations at the same time.
        num_prompt_tokens: length of the longest prompt.
        num_restarts: answers that ended too early and were begun again.
        step_ms: mean time in which every conversation gets a token, from the last conversation's
            first token to the first one's last, while all of them decode.
        tokens_per_s: output tokens of all conversations per second, prefill included in the time.
        first_token_ms: time from the request to its first token; all conversations begin at once.
        token_gap_ms: time between two tokens of an answer.
        bound_share: share of a step in which the device copies as many bytes as the weights have;
            ``None``: not measured.
        host_ms: host time per step; see `antiphon_bench.engine.Result`.
    """

    concurrency: int
    num_tokens: int
    num_prompt_tokens: int
    num_restarts: int
    step_ms: float
    tokens_per_s: float
    first_token_ms: Percentiles
    token_gap_ms: Percentiles | None
    bound_share: float | None = None
    host_ms: dict[str, HostTime] = field(default_factory=dict)


async def measure_chat(model: ChatModel, load: ChatLoad, first_number: int = 0) -> ChatResult:
    """Run one load and return its result.

    Args:
        load: number of conversations and their lengths.
        first_number: number of the first conversation; other loads must use other numbers.
    """
    prompts = [
        await asyncio.to_thread(_prompt, model, load, number)
        for number in range(first_number, first_number + load.concurrency)
    ]
    before = await host_seconds(model)
    times = await asyncio.gather(*(_answer(model, each, load.num_tokens) for each in prompts))
    return replace(summarize_chat(times), host_ms=host_times(before, await host_seconds(model)))


def summarize_chat(times: Sequence[AnswerTimes]) -> ChatResult:
    """Turn the answers' times into one result; each has one token at least."""
    wall_s = max(each.arrivals_s[-1] for each in times) - min(each.started_s for each in times)
    num_tokens = sum(len(each.arrivals_s) for each in times)
    first_ms = Percentiles.ms_of(each.arrivals_s[0] - each.started_s for each in times)
    assert first_ms is not None
    return ChatResult(
        concurrency=len(times),
        num_tokens=num_tokens,
        num_prompt_tokens=max(each.num_prompt_tokens for each in times),
        num_restarts=sum(each.num_restarts for each in times),
        step_ms=_step_s(times) * 1000,
        tokens_per_s=num_tokens / wall_s,
        first_token_ms=first_ms,
        token_gap_ms=Percentiles.ms_of(
            after_s - before_s for each in times for before_s, after_s in pairwise(each.arrivals_s)
        ),
    )


def _step_s(times: Sequence[AnswerTimes]) -> float:
    """Return the time of a token of each answer, in seconds, while all of them are written.

    Where answers are so short that there is hardly such a time, that is from the beginning to the
    end of all, prompts included.
    """
    from_s = max(each.arrivals_s[0] for each in times)
    to_s = min(each.arrivals_s[-1] for each in times)
    within = sum(from_s < at_s <= to_s for each in times for at_s in each.arrivals_s)
    num_tokens = sum(len(each.arrivals_s) for each in times)
    if 2 * within < num_tokens:
        from_s = min(each.started_s for each in times)
        to_s = max(each.arrivals_s[-1] for each in times)
        within = num_tokens
    return (to_s - from_s) * len(times) / within


async def run_chat(
    settings: ModelSettings,
    loads: Sequence[ChatLoad],
    on_result: Callable[[ChatResult], None] | None = None,
) -> dict[str, Any]:
    """Load a model, warm it with each load once, and measure.

    Args:
        on_result: callback with each load's figures as soon as they are known.

    Returns:
        What was measured and on what, with what bounds it if there is a GPU, ready for JSON.

    Raises:
        ModelLoadError: the model cannot be loaded, or does not chat.
        InvalidRequestError: answers of so many tokens do not fit into its context.
    """
    bound = await bound_of(settings, {load.concurrency for load in loads})
    if bound is not None:
        bound["weights_ms"] = bound["weight_bytes_read"] / bound["copy_gb_per_s"] / 1e6
    model = await ChatModel.load(settings.model_copy(update=UNBOUNDED), CHAT)
    try:
        await model.warm_up()
        results, number = [], 0
        for load in loads:
            warming = replace(load, num_tokens=min(_WARM_UP_TOKENS, load.num_tokens))
            for each in (warming, load):
                result = await measure_chat(model, each, number)
                number += load.concurrency
            if bound is not None:
                result = replace(result, bound_share=bound["weights_ms"] / result.step_ms)
            if on_result is not None:
                on_result(result)
            results.append(asdict(result))
    finally:
        await model.close()
    return {
        **provenance(),
        "kind": "chat",
        "model": settings.model_dump(),
        "question": loads[0].question,
        "sampling": asdict(model.capabilities.sampling),
        "bound": bound,
        "results": results,
    }


def _prompt(model: ChatModel, load: ChatLoad, number: int) -> Prompt:
    """Build the prompt of a conversation whose answer does not end by itself."""
    request = ChatRequest(
        (Message("user", f"{number}. {load.question}"),),
        max_tokens=load.num_tokens,
        ignore_eos=True,
    )
    prompt: Prompt = model.prompter.build(request, number)
    return prompt


async def _answer(model: ChatModel, prompt: Prompt, num_tokens: int) -> AnswerTimes:
    """Write until there are as many tokens; an answer that ends before is begun again."""
    times = AnswerTimes(prompt.num_tokens, time.perf_counter())
    while (num_written := len(times.arrivals_s)) < num_tokens:
        async with aclosing(model.open(StageRequest(new_request_id(), prompt))) as items:
            async for item in items:
                if isinstance(item, FrameReady):
                    times.arrivals_s.append(time.perf_counter())
        if len(times.arrivals_s) == num_written:
            raise EngineError("An answer has no token; its speed cannot be measured.")
        rest = num_tokens - len(times.arrivals_s)
        times.num_restarts += rest > 0
        prompt = replace(
            prompt,
            seed=prompt.seed + _RESTART_SEED,
            sampling=replace(prompt.sampling, max_frames=max(1, rest)),
        )
    return times
