"""Answers in chats: requests are checked, prompts built, stages opened, tokens become text."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from antiphon.concurrency import Workers
from antiphon.config.chat import ChatSettings
from antiphon.contracts.chat import ChatCapabilities, ChatPrompter
from antiphon.contracts.chat_types import (
    ChatAnswer,
    ChatEvent,
    ChatRequest,
    ChatSampling,
    ChatStream,
    ChatStreams,
    TextDelta,
)
from antiphon.contracts.prompt import Admitted
from antiphon.contracts.sampling import NEVER, Range, check_ranges
from antiphon.contracts.token_frame import MAX_LOGPROBS, TokenFrame
from antiphon.contracts.types import (
    Ended,
    FrameReady,
    Latents,
    PositionStates,
    SpeechRequest,
    Usage,
    Voice,
    new_seed,
)
from antiphon.contracts.well_formed import check_members
from antiphon.errors import EngineError, InputTooLongError, InvalidRequestError, invalid, shortened
from antiphon.pipeline.all_or_nothing import alone, together
from antiphon.pipeline.chat.answer_text import AnswerText
from antiphon.pipeline.chat.omni_talker import (
    AnswerSynthesis,
    ChatVoiceModel,
    OmniTalkerChat,
    StopStringGate,
)
from antiphon.pipeline.chat.thoughts import ThoughtSplit
from antiphon.pipeline.model_directory import ModelDirectory
from antiphon.pipeline.runtime import LoadedTask
from antiphon.stages.base import StageRequest
from antiphon.telemetry.metrics import Metrics

CHAT = "chat"

MAX_STOPS = 16
MAX_STOP_CHARACTERS = 1000
MAX_LOGIT_BIAS = 100.0

_OWN_VARIABLES = ("messages", "add_generation_prompt", "tools", "documents")
"""What templates are given by the server."""


class ChatModel(LoadedTask):
    prompter: ChatPrompter

    @property
    def capabilities(self) -> ChatCapabilities:
        """What the loaded checkpoint can do."""
        return self.prompter.capabilities


class Chats(ModelDirectory[ChatModel]):
    """Answers with the served models."""

    def __init__(
        self,
        models: Mapping[str, ChatModel],
        settings: ChatSettings,
        metrics: Metrics | None = None,
        others: Mapping[str, str] | None = None,
        voices: Mapping[str, ChatVoiceModel] | None = None,
    ) -> None:
        """Serve ``models`` by the name that requests use; the first one is the default.

        Args:
            others: Tasks of served models that do not chat, by their names.
            voices: Voices of models that speak their own answers, by their names.
        """
        super().__init__(models, settings.model_aliases, "chats", others)
        self._voices = voices or {}
        self.settings = settings
        self.metrics = metrics or Metrics()
        self._workers = Workers("chats")

    def voice(self, name: str | None) -> ChatVoiceModel | None:
        """Return the voice of the model of this name or alias, if it has one.

        Raises:
            UnknownModelError: there is no such model.
            UnservedTaskError: there is, but it has another task.
        """
        return self._voices.get(self.model(name).name)

    def check(self, request: ChatRequest) -> ChatModel:
        """Return the model that is to answer; does no work; raises InvalidRequestError."""
        model = self.model(request.model)
        _check_messages(request, self.settings.max_input_characters)
        _check_limits(request)
        _check_sampling(request.sampling, model.capabilities)
        _check_template_kwargs(request)
        _check_logprobs(request.num_logprobs, model)
        return model

    def stream(self, request: ChatRequest) -> ChatStream:
        """Write one answer: text as it becomes certain, then one `Ended`.

        Closing the stream stops the model within one step and frees all that it held.

        Raises:
            InvalidRequestError: here, or before the first item; names the field and what is
                allowed.
            OverloadedError: before the first item: too much is under way.
            EngineError: the model failed.
        """
        return alone(self._written(request, self.check(request)))

    def several(self, requests: Sequence[ChatRequest]) -> ChatStreams:
        """Write answers at once: each event comes with the number of its request, from 0.

        No event comes before there is room for all of them; the first that fails ends all.

        Raises:
            InvalidRequestError, OverloadedError, EngineError: as of `stream`.
        """
        tells_admission = len(requests) > 1
        return together(
            [
                self._written(each, self.check(each), tells_admission=tells_admission)
                for each in requests
            ]
        )

    def speak(
        self, request: ChatRequest, talker: ChatVoiceModel, voice: Voice, speech: SpeechRequest
    ) -> OmniTalkerChat:
        """Write one answer as `stream` does, spoken by the model itself."""
        model = self.check(request)
        if request.num_logprobs is not None:
            raise InvalidRequestError("'logprobs' is not supported with audio output.")
        seed = new_seed() if speech.seed is None else speech.seed
        speech = replace(speech, seed=seed, is_live=request.is_live)
        synthesis = AnswerSynthesis(talker, speech, voice, self._workers, self.metrics)
        chat = self._written(replace(request, is_spoken=True), model, synthesis.push)
        return OmniTalkerChat(alone(chat), synthesis)

    async def _written(
        self,
        request: ChatRequest,
        model: ChatModel,
        release: Callable[[PositionStates], None] | None = None,
        *,
        tells_admission: bool = False,
    ) -> AsyncGenerator[ChatEvent | Admitted, None]:
        seed = new_seed() if request.seed is None else request.seed
        with self.metrics.observe_chat(model.name) as stats:
            prompt = await self._workers.run(model.prompter.build, request, seed)
            thoughts = None
            if model.capabilities.thinks and self.settings.reasoning == "apart":
                thoughts = ThoughtSplit(in_thought=model.prompter.in_thought(prompt))
            text = AnswerText(model.prompter, request, thoughts)
            states = StopStringGate(release)
            ended: Ended | None = None
            stage_request = StageRequest(
                request.id, prompt, is_live=request.is_live, tells_admission=tells_admission
            )
            async with aclosing(model.open(stage_request)) as items:
                async for item in items:
                    if isinstance(item, FrameReady):
                        stats.see_token()
                        delta = text.push(TokenFrame.of(item.frame))
                        states.release(text.num_certain if request.stop else stats.num_tokens)
                        if delta is not None:
                            yield delta
                        if text.is_stopped:
                            ended = Ended("stop")
                            break  # closes the stages, which stops the model
                    elif isinstance(item, Latents):
                        states.push(item.data)
                    elif isinstance(item, Admitted):
                        yield item
                    elif isinstance(item, Ended):
                        ended = item
            assert ended is not None, "a stream has an end"
            rest = text.flush()
            states.release(text.num_certain)
            if rest is not None:
                yield rest
            ended = Ended(ended.reason, Usage(prompt.num_tokens, stats.num_tokens))
            stats.end(ended)
            yield ended

    def close(self) -> None:
        """Stop the worker threads."""
        self._workers.close()


async def collect_answer(stream: ChatStream) -> ChatAnswer:
    """Return a whole answer; closes ``stream``; raises EngineError."""
    deltas: list[TextDelta] = []
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                deltas.append(event)
            else:
                text = "".join(delta.text for delta in deltas)
                logprobs = tuple(each for delta in deltas for each in delta.logprobs)
                reasoning = "".join(delta.reasoning for delta in deltas)
                return ChatAnswer(text, event.reason, event.usage, logprobs, reasoning)
    raise EngineError("The answer has no end.")


def _check_messages(request: ChatRequest, max_characters: int) -> None:
    if not request.messages:
        raise invalid("messages", "there are none")
    texts = [message.content for message in request.messages]
    check_members({"messages": texts, "stop": request.stop})
    num_characters = sum(map(len, texts))
    if num_characters > max_characters:
        raise InputTooLongError(num_characters, max_characters, "messages")


def _check_limits(request: ChatRequest) -> None:
    if request.max_tokens is not None and request.max_tokens < 1:
        raise invalid("max_tokens", f"{request.max_tokens}. It must be at least 1")
    most = NEVER if request.max_tokens is None else request.max_tokens
    Range(0, most).check("min_tokens", request.min_tokens)
    if len(request.stop) > MAX_STOPS:
        raise invalid("stop", f"{len(request.stop)} strings; at most {MAX_STOPS} are allowed")
    if not all(0 < len(stop) <= MAX_STOP_CHARACTERS for stop in request.stop):
        raise invalid("stop", f"each must have 1 to {MAX_STOP_CHARACTERS} characters")


def _check_sampling(sampling: ChatSampling, capabilities: ChatCapabilities) -> None:
    check_ranges(sampling)
    for token, bias in (sampling.logit_bias or {}).items():
        if not 0 <= token < capabilities.vocab_size:
            raise invalid(
                "logit_bias",
                f"there is no token {token}. Allowed: 0 to {capabilities.vocab_size - 1}",
            )
        if not abs(bias) <= MAX_LOGIT_BIAS:
            raise invalid(
                "logit_bias", f"{bias:g}. Allowed: -{MAX_LOGIT_BIAS:g} to {MAX_LOGIT_BIAS:g}"
            )


def _check_template_kwargs(request: ChatRequest) -> None:
    for name, value in request.template_kwargs.items():
        is_own = name in _OWN_VARIABLES or not name.isidentifier()
        if is_own or not isinstance(value, str | int | float | None):
            raise invalid(
                "chat_template_kwargs",
                f"'{shortened(name)}'. It must be a name other than {', '.join(_OWN_VARIABLES)},"
                " of a text, a number, a truth value or null",
            )
    check_members({"chat_template_kwargs": list(request.template_kwargs.values())})


def _check_logprobs(num_logprobs: int | None, model: ChatModel) -> None:
    if num_logprobs is None:
        return
    if not model.capabilities.logprobs:
        raise InvalidRequestError(
            f"The model '{model.name}' does not support 'logprobs'.", param="logprobs"
        )
    if not 0 <= num_logprobs <= MAX_LOGPROBS:
        raise invalid("top_logprobs", f"{num_logprobs}. Allowed: 0 to {MAX_LOGPROBS}")
